import type { Benchmark } from './benchmark.ts';
import api from './benchmarks/api.ts';
import apiScale from './benchmarks/api-scale.ts';
import deliveryLarge from './benchmarks/delivery-large.ts';
import deliveryMiss from './benchmarks/delivery-miss.ts';
import deliverySmall from './benchmarks/delivery-small.ts';
import deliverySweep from './benchmarks/delivery-sweep.ts';
import image from './benchmarks/image.ts';
import imageChoice from './benchmarks/image-choice.ts';
import imageSettings from './benchmarks/image-settings.ts';
import ingest from './benchmarks/ingest.ts';
import memory from './benchmarks/memory.ts';
import ready from './benchmarks/ready.ts';
import readyVideo from './benchmarks/ready-video.ts';
import start from './benchmarks/start.ts';
import video from './benchmarks/video.ts';
import workers from './benchmarks/workers.ts';

/** Every benchmark, in the order in which they run. A new one is a file in benchmarks/ and a line here. */
export const benchmarks: readonly Benchmark[] = [
  image,
  imageChoice,
  imageSettings,
  video,
  ready,
  readyVideo,
  workers,
  api,
  apiScale,
  deliverySmall,
  deliveryLarge,
  deliverySweep,
  deliveryMiss,
  ingest,
  memory,
  start,
];
