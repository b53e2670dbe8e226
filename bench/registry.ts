import type { Benchmark } from './benchmark.ts';
import image from './benchmarks/image.ts';
import imageChoice from './benchmarks/image-choice.ts';

/** Every benchmark, in the order in which they run. A new one is a file in benchmarks/ and a line here. */
export const benchmarks: readonly Benchmark[] = [image, imageChoice];
