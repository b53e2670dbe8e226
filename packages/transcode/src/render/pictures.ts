import { join } from 'node:path';
import type { Sharp } from 'sharp';
import { rgbaToThumbHash } from 'thumbhash';
import type { RawPixels } from '../heic.ts';
import { fitInside, type PlannedPicture, type Size } from '../plan.ts';
import type { PicturePreset } from '../presets/picture.ts';
import { presetRevision } from '../presets/presets.ts';
import { atMost } from './at-most.ts';
import { fromRaw, toRaw } from './decode.ts';
import { copyRendition, readyFile, writeVerifiedImage } from './output-file.ts';
import type { FailedRendition, ReadyRendition } from './result.ts';

/**
 * All renditions that are not larger are derived from the source at this size. It is constant because otherwise the bytes of a
 * revision would depend on which other renditions the same run makes.
 */
export const baseBox = { width: 2048, height: 2048 };

/** Images to make from one still: an image file or a frame of a video. */
export interface PictureJob {
  readonly wanted: readonly PlannedPicture[];
  /** The upright still within {@link baseBox}: 8-bit sRGB or grey, with alpha if the source has it. */
  readonly base: RawPixels;
  /** Decodes the still again, for renditions that are larger than the base. */
  decodeAt(size: Size): Promise<RawPixels>;
  /** All frames of an animated source at the size of a WebP rendition; null for a still. */
  readonly animated: ((planned: PlannedPicture) => Sharp) | null;
  readonly outDir: string;
  /** Encoders that run side by side; default: all. */
  readonly atOnce?: number | undefined;
  /** Measures the time of a named piece of work. */
  clock<T>(stage: string, work: Promise<T>): Promise<T>;
  /** Sentences for each of the renditions. */
  readonly notes?: readonly string[];
  finish(planned: PlannedPicture, rendition: ReadyRendition | FailedRendition): void;
}

/** Renditions with the same bytes: the same encoder settings at the same size. The first is encoded, the others are copied. */
interface Batch {
  members: PlannedPicture[];
  lead: PlannedPicture;
}

/**
 * Makes images into `outDir` as `name.extension`. Every size is derived from the base, up to `atOnce` encoders run side by side,
 * and each rendition is reported as soon as it is done. A failed rendition is reported as failed; it does not throw.
 * @returns ThumbHash of the base as base64, or null if none could be made
 */
export async function renderPictures(job: PictureJob): Promise<string | null> {
  const { base, animated, clock, atOnce = Number.POSITIVE_INFINITY } = job;
  const limit = atMost(atOnce);
  const sizes = sizesFrom(base, (size) => job.decodeAt(size));
  const encoded = batchesOf(job.wanted).map((batch) =>
    limit(() =>
      clock(
        `${batch.lead.name}.${batch.lead.extension}`,
        renderBatch(batch, job, async (temporary) => {
          const { lead } = batch;
          const picture =
            animated !== null && lead.preset.container === 'webp' ? animated(lead) : fromRaw(await sizes(lead));
          await encodeWith(picture, lead.preset).toFile(temporary);
        }),
      ),
    ),
  );
  const thumbhash = limit(() => clock('thumbhash', thumbhashOf(sizes, base))).catch(() => null);
  await Promise.all(encoded);
  return thumbhash;
}

function batchesOf(wanted: readonly PlannedPicture[]): Batch[] {
  const batches = new Map<string, Batch>();
  for (const rendition of wanted) {
    const { preset, width, height } = rendition;
    // The revision has all encoder settings. The box no longer matters once the size is known.
    const key = `${presetRevision({ ...preset, width: null, height: null })} ${width}x${height}`;
    const batch = batches.get(key);
    if (batch) batch.members.push(rendition);
    else batches.set(key, { members: [rendition], lead: rendition });
  }
  // The slowest first: large before small, and at equal size AVIF with its slow encoder first.
  const slowness = ({ preset }: PlannedPicture) => (preset.container === 'avif' ? 1 : 0);
  return [...batches.values()].sort(
    ({ lead: a }, { lead: b }) => b.width * b.height - a.width * a.height || slowness(b) - slowness(a),
  );
}

type Sizes = (size: Size) => Promise<RawPixels>;

/** Pixels at any size, each made once: the base, an image derived from it, or a new decode if larger. */
function sizesFrom(base: RawPixels, decodeAt: (size: Size) => Promise<RawPixels>): Sizes {
  const made = new Map<string, Promise<RawPixels>>();
  return (size) => {
    if (size.width === base.width && size.height === base.height) return Promise.resolve(base);
    const key = `${size.width}x${size.height}`;
    const known = made.get(key);
    if (known !== undefined) return known;
    const larger = size.width > base.width || size.height > base.height;
    const pixels = larger ? decodeAt(size) : toRaw(fromRaw(base), size);
    made.set(key, pixels);
    return pixels;
  };
}

async function renderBatch(
  { members, lead }: Batch,
  { outDir, finish, notes = [] }: PictureJob,
  write: (temporary: string) => Promise<unknown>,
): Promise<void> {
  const placeOf = ({ name, extension }: PlannedPicture) => join(outDir, `${name}.${extension}`);
  try {
    const place = placeOf(lead);
    const facts = await writeVerifiedImage(place, lead, write);
    // Copied before anyone is notified, because the receiver may move the file away.
    for (const member of members) if (member !== lead) await copyRendition(place, placeOf(member));
    for (const member of members) finish(member, readyFile(member, placeOf(member), facts, notes));
  } catch (error) {
    const reason = error instanceof Error ? (error.message.replaceAll(outDir, '').split('\n')[0] ?? '') : String(error);
    for (const member of members) {
      const { name, extension, revision } = member;
      finish(member, {
        name,
        extension,
        revision,
        state: 'failed',
        code: 'output_failed',
        reason: `${name}.${extension} could not be made: ${reason}`,
      });
    }
  }
}

/** Sets the encoder of a preset. Metadata is never written: sharp drops EXIF, GPS, XMP and ICC by default. */
function encodeWith(picture: Sharp, preset: PicturePreset): Sharp {
  switch (preset.container) {
    case 'webp':
      return picture.webp({ quality: preset.quality, effort: preset.effort, lossless: preset.lossless });
    case 'avif':
      return picture.avif({
        quality: preset.quality,
        effort: preset.effort,
        chromaSubsampling: preset.chroma,
        tune: preset.tune,
      });
    case 'jpeg':
      return picture.flatten({ background: preset.background }).jpeg({
        quality: preset.quality,
        chromaSubsampling: preset.chroma,
        progressive: preset.progressive,
        mozjpeg: preset.mozjpeg,
      });
    case 'png':
      return picture.png({ compressionLevel: preset.effort });
  }
}

/** ThumbHash accepts images of at most 100 x 100. */
async function thumbhashOf(sizes: Sizes, base: RawPixels): Promise<string> {
  const small = await sizes(fitInside(base, { width: 100, height: 100 }));
  const { data, info } = await fromRaw(small)
    .toColourspace('srgb')
    .ensureAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return Buffer.from(rgbaToThumbHash(info.width, info.height, data)).toString('base64');
}
