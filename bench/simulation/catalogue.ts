import type { OwnedObject } from '../../apps/server/src/delivery/verified-body.ts';
import { createNormal, createRandom } from '../pictures/painters/noise.mjs';

/** One object of a media object, with its share of the requests. */
export interface CataloguedObject extends OwnedObject {
  /** Share of the requests for its media object. */
  readonly weight: number;
}

/** The objects of one picture or video in the simulated service. */
export interface CataloguedMedia {
  readonly id: string;
  readonly objects: readonly CataloguedObject[];
  readonly bytes: number;
  /** Draws the object of a request for the media object. @param uniform from 0 to below 1 */
  pick(uniform: number): CataloguedObject;
}

/** Makes media one by one, each unlike those before. */
export interface Catalogue {
  next(): CataloguedMedia;
}

interface Shape {
  readonly file: string;
  readonly bytes: number;
  readonly weight: number;
}

const KIB = 1024;

/**
 * Renditions of a picture by the default presets. Sizes are medians: the mean of 20 varied pictures in docs/performance.md
 * (`image-choice`). The shares of requests are an assumption: pages show many small pictures for each that is opened.
 */
const PICTURE: readonly Shape[] = [
  { file: 'thumb.webp', bytes: 4.4 * KIB, weight: 0.5 },
  { file: 'small.webp', bytes: 13 * KIB, weight: 0.2 },
  { file: 'medium.webp', bytes: 32 * KIB, weight: 0.05 },
  { file: 'medium.avif', bytes: 16 * KIB, weight: 0.13 },
  { file: 'medium.jpg', bytes: 47 * KIB, weight: 0.02 },
  { file: 'large.webp', bytes: 60 * KIB, weight: 0.1 },
];
const POSTER: Shape = { file: 'poster.webp', bytes: 32 * KIB, weight: 0.2 };
/** Bytes per second of the default ladder; together the 39.7 MiB a minute of docs/performance.md (`video`). */
const RUNGS = [
  { name: '1080p', bytesPerS: 340 * KIB, weight: 0.35 },
  { name: '720p', bytesPerS: 190 * KIB, weight: 0.4 },
  { name: '480p', bytesPerS: 95 * KIB, weight: 0.15 },
  { name: '360p', bytesPerS: 52 * KIB, weight: 0.1 },
] as const;
const SEGMENT_S = 4;
const MEDIAN_DURATION_S = 60;
const LONGEST_DURATION_S = 600;
/** The share of viewers of a segment who also see the next one. */
const STAYING = 0.93;
/** Standard deviation of the logarithm of sizes and durations: one in six is 1.8 times the median or more. */
const SPREAD = 0.6;

/** A {@link Catalogue} of pictures and videos. @param videoShare the share of videos, 0 to 1 */
export function createCatalogue(seed: number, videoShare: number): Catalogue {
  const random = createRandom(seed);
  const normal = createNormal(seed ^ 0x5eed);
  let count = 0;
  let objectCount = 0;
  return {
    next() {
      count += 1;
      const id = `med_${String(count).padStart(26, '0')}`;
      const factor = Math.exp(SPREAD * normal());
      const shapes =
        random() < videoShare ? videoShapes(factor, MEDIAN_DURATION_S * Math.exp(SPREAD * normal())) : PICTURE;
      const scale = shapes === PICTURE ? factor : 1;
      const objects = shapes.map(({ file, bytes, weight }): CataloguedObject => {
        objectCount += 1;
        const sha256 = objectCount.toString(16).padStart(64, '0');
        const size = Math.max(1, Math.round(bytes * scale));
        return { mediaId: id, object: { key: `${id}/${file}`, sha256, bytes: size, pieces: null }, weight };
      });
      return mediaObjectOf(id, objects);
    },
  };
}

/** Makes a media object of these objects, with their weights scaled to a sum of 1. */
export function mediaObjectOf(id: string, weighted: readonly CataloguedObject[]): CataloguedMedia {
  const total = weighted.reduce((sum, { weight }) => sum + weight, 0);
  const objects = weighted.map((object) => ({ ...object, weight: object.weight / total }));
  const last = objects.at(-1);
  if (last === undefined) throw new RangeError('A media object has objects.');
  return {
    id,
    objects,
    bytes: objects.reduce((sum, { object }) => sum + object.bytes, 0),
    pick(uniform) {
      let left = uniform;
      for (const object of objects) {
        left -= object.weight;
        if (left < 0) return object;
      }
      return last;
    },
  };
}

/** A poster, and the segments of each rung: every viewer starts at the first, and some leave after each. */
function videoShapes(factor: number, durationS: number): Shape[] {
  const segments = Math.ceil(Math.min(durationS, LONGEST_DURATION_S) / SEGMENT_S);
  const shapes = [POSTER];
  for (const { name, bytesPerS, weight } of RUNGS) {
    for (let index = 0; index < segments; index += 1) {
      shapes.push({
        file: `${name}/${index}.m4s`,
        bytes: bytesPerS * SEGMENT_S * factor,
        weight: weight * STAYING ** index,
      });
    }
  }
  return shapes;
}
