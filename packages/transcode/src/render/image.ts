import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Sharp } from 'sharp';
import { rgbaToThumbHash } from 'thumbhash';
import { RenderError } from '../errors.ts';
import type { RawPixels } from '../heic.ts';
import { openBytes } from '../identify/bytes.ts';
import { readHeader } from '../identify/identify.ts';
import { displayedSize } from '../identify/image/exif.ts';
import type { ImageHeader } from '../identify/image/header.ts';
import { defaultLimits, type EngineLimits } from '../limits.ts';
import { fitInside, type PlannedRendition } from '../plan.ts';
import { presetRevision } from '../presets.ts';
import { sharp } from '../vips.ts';
import { decodeStill, fromRaw, toRaw } from './decode.ts';
import { encodeWith } from './encode.ts';
import { copyWhole, type OutputFacts, writeWhole } from './output-file.ts';
import type { FailedRendition, ReadyRendition, RenderProgress, RenderResult } from './result.ts';

export interface ImageRenderOptions {
  limits?: EngineLimits;
  onProgress?: (progress: RenderProgress) => void;
}

/** Renditions with the same bytes: the same encoder settings at the same size. The first is encoded, the others copied. */
interface Batch {
  members: PlannedRendition[];
  lead: PlannedRendition;
  animated: boolean;
}

/**
 * Makes the renditions of an image that are planned as `make`, into `outDir` as `name.extension`. The source is decoded
 * once, at most 2048 px wide or high, and every size is derived from that; encoders run side by side. The bytes of a rendition
 * depend on the source and its own preset alone: a run that makes only what is missing makes the same ones.
 * Throws a `RenderError` where the source gives no picture at all; a rendition that fails alone is reported as failed.
 */
export async function renderImage(
  path: string,
  plan: readonly PlannedRendition[],
  outDir: string,
  options: ImageRenderOptions = {},
): Promise<RenderResult> {
  const limits = options.limits ?? defaultLimits;
  const began = performance.now();
  const timings: Record<string, number> = {};
  const clock = async <T>(stage: string, work: Promise<T>): Promise<T> => {
    const start = performance.now();
    try {
      return await work;
    } finally {
      timings[stage] = Math.round(performance.now() - start);
    }
  };

  const header = reread(path, limits);
  const wanted = plan.filter(({ state }) => state === 'make');
  const batches = batchesOf(wanted, header);
  const decodeAt = (size: { width: number; height: number }) =>
    decodeStill(path, header, size, limits).catch((error: unknown) => noPicture(error, path));
  const base = await clock('decode', decodeAt(fitInside(displayedSize(header), BASE_BOX)));
  const sizes = sizesFrom(base, decodeAt);

  const results = new Map<PlannedRendition, ReadyRendition | FailedRendition>();
  const finish = (planned: PlannedRendition, rendition: ReadyRendition | FailedRendition) => {
    results.set(planned, rendition);
    options.onProgress?.({ done: results.size, total: wanted.length, rendition });
  };
  const encoded = batches.map((batch) =>
    clock(
      `${batch.lead.name}.${batch.lead.extension}`,
      renderBatch(batch, outDir, finish, async (temporary) => {
        const { lead } = batch;
        const picture = batch.animated ? animation(path, lead, limits) : fromRaw(await sizes(lead));
        await encodeWith(picture, lead.preset).toFile(temporary);
      }),
    ),
  );
  const thumbhash = clock('thumbhash', thumbhashOf(sizes, base)).catch(() => null);
  await Promise.all(encoded);

  return {
    renditions: wanted.flatMap((rendition) => results.get(rendition) ?? []),
    thumbhash: await thumbhash,
    warnings: [...new Set([...header.warnings, ...base.warnings])],
    timings: { ...timings, total: Math.round(performance.now() - began) },
  };
}

/** The file is read again, not trusted to be the one that was identified; it may have been damaged since. */
function reread(path: string, limits: EngineLimits): ImageHeader {
  const bytes = openBytes(path);
  try {
    return readHeader(bytes, limits);
  } catch (error) {
    return noPicture(error, path);
  } finally {
    bytes.close();
  }
}

function noPicture(error: unknown, path: string): never {
  const reason = error instanceof Error ? (error.message.replaceAll(path, 'the file').split('\n')[0] ?? '') : '';
  throw new RenderError(
    'corrupt_media',
    `The picture is damaged and cannot be decoded (${reason}). Export it again and upload the new file.`,
    { cause: error },
  );
}

function batchesOf(wanted: readonly PlannedRendition[], header: ImageHeader): Batch[] {
  const batches = new Map<string, Batch>();
  for (const rendition of wanted) {
    const { preset, width, height } = rendition;
    const animated = header.frames > 1 && preset.container === 'webp';
    // The revision says what the encoder is told; the box does not matter any more once the size is known.
    const key = `${presetRevision({ ...preset, width: null, height: null })} ${width}x${height}`;
    const batch = batches.get(key);
    if (batch) batch.members.push(rendition);
    else batches.set(key, { members: [rendition], lead: rendition, animated });
  }
  // What takes longest first: large before small, the slow AVIF encoder before its equals in size.
  const slowness = ({ preset }: PlannedRendition) => (preset.container === 'avif' ? 1 : 0);
  return [...batches.values()].sort(
    ({ lead: a }, { lead: b }) => b.width * b.height - a.width * a.height || slowness(b) - slowness(a),
  );
}

type Sizes = (size: { width: number; height: number }) => Promise<RawPixels>;

/**
 * Whatever is not larger is derived from the source at this size. A constant, not the largest of what is due: else the
 * bytes under a revision would depend on what else is made in the same run.
 */
const BASE_BOX = { width: 2048, height: 2048 };

/** Pixels at any size: the base's or derived from it, or decoded anew where larger; each made once. */
function sizesFrom(base: RawPixels, decodeAt: (size: { width: number; height: number }) => Promise<RawPixels>): Sizes {
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

/** Every frame, with the source's delays and number of loops. */
function animation(path: string, { width, height }: PlannedRendition, limits: EngineLimits): Sharp {
  return sharp(path, { animated: true, failOn: 'none', limitInputPixels: limits.maxPixels }).resize(width, height, {
    fit: 'fill',
  });
}

async function renderBatch(
  { members, lead }: Batch,
  outDir: string,
  finish: (rendition: PlannedRendition, result: ReadyRendition | FailedRendition) => void,
  write: (temporary: string) => Promise<unknown>,
): Promise<void> {
  const placeOf = ({ name, extension }: PlannedRendition) => join(outDir, `${name}.${extension}`);
  const ready = (
    { name, extension, revision }: PlannedRendition,
    path: string,
    facts: OutputFacts,
  ): ReadyRendition => ({
    name,
    extension,
    revision,
    state: 'ready',
    path,
    ...facts,
  });
  try {
    const place = placeOf(lead);
    const facts = await writeWhole(place, lead, write);
    // Copied before anybody is told of it: who is told may take the file away.
    for (const member of members) if (member !== lead) await copyWhole(place, placeOf(member));
    for (const member of members) finish(member, ready(member, placeOf(member), facts));
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

/** ThumbHash takes pictures of at most 100 x 100. */
async function thumbhashOf(sizes: Sizes, base: RawPixels): Promise<string> {
  const small = await sizes(fitInside(base, { width: 100, height: 100 }));
  const { data, info } = await fromRaw(small)
    .toColourspace('srgb')
    .ensureAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return Buffer.from(rgbaToThumbHash(info.width, info.height, data)).toString('base64');
}
