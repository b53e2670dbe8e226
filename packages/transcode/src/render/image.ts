import { performance } from 'node:perf_hooks';
import type { Sharp } from 'sharp';
import { RenderError } from '../errors.ts';
import { openBytes } from '../identify/bytes.ts';
import { readHeader } from '../identify/identify.ts';
import { displayedSize } from '../identify/image/exif.ts';
import type { ImageHeader } from '../identify/image/header.ts';
import { defaultLimits, type EngineLimits } from '../limits.ts';
import { fitInside, isPicture, type PlannedPicture, type PlannedRendition } from '../plan.ts';
import { sharp } from '../vips.ts';
import { decodeStill } from './decode.ts';
import { baseBox, renderPictures } from './pictures.ts';
import type { FailedRendition, ReadyRendition, RenderProgress, RenderResult } from './result.ts';

export interface ImageRenderOptions {
  limits?: EngineLimits;
  /** Encoders that run side by side; default: all. */
  atOnce?: number | undefined;
  onProgress?: (progress: RenderProgress) => void;
}

/**
 * Makes the renditions of an image that are planned as `make`, into `outDir` as `name.extension`. The source is decoded once, at
 * most 2048 px wide or high, and every size is derived from that; encoders run side by side. A rendition's bytes depend only on
 * the source and its own preset, so making only the missing ones gives the same bytes. Throws a `RenderError` if the source
 * cannot be decoded. A rendition that fails alone is reported as failed.
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

  const header = readAgain(path, limits);
  const wanted = plan.filter(isPicture).filter(({ state }) => state === 'make');
  const decodeAt = (size: { width: number; height: number }) =>
    decodeStill(path, header, size, limits).catch((error: unknown) => failDecode(error, path));
  const base = await clock('decode', decodeAt(fitInside(displayedSize(header), baseBox)));

  const results = new Map<PlannedPicture, ReadyRendition | FailedRendition>();
  const finish = (planned: PlannedPicture, rendition: ReadyRendition | FailedRendition) => {
    results.set(planned, rendition);
    const [done, total] = [results.size, wanted.length];
    options.onProgress?.({ done, total, fraction: done / total, rendition });
  };
  const thumbhash = await renderPictures({
    ...{ wanted, base, decodeAt, outDir, clock, finish, atOnce: options.atOnce },
    animated: header.frames > 1 ? (planned) => animation(path, planned, limits) : null,
  });

  return {
    renditions: wanted.flatMap((rendition) => results.get(rendition) ?? []),
    thumbhash,
    warnings: [...new Set([...header.warnings, ...base.warnings])],
    runs: [],
    timings: { ...timings, total: Math.round(performance.now() - began) },
  };
}

/** Reads the header again, because the file may have changed or been damaged since its identification. */
function readAgain(path: string, limits: EngineLimits): ImageHeader {
  const bytes = openBytes(path);
  try {
    return readHeader(bytes, limits);
  } catch (error) {
    return failDecode(error, path);
  } finally {
    bytes.close();
  }
}

function failDecode(error: unknown, path: string): never {
  const reason = error instanceof Error ? (error.message.replaceAll(path, 'the file').split('\n')[0] ?? '') : '';
  throw new RenderError(
    'corrupt_media',
    `The image is damaged and cannot be decoded (${reason}). Export it again and upload the new file.`,
    { cause: error },
  );
}

/** All frames, with the source's delays and number of loops. */
function animation(path: string, { width, height }: PlannedPicture, limits: EngineLimits): Sharp {
  return sharp(path, { animated: true, failOn: 'none', limitInputPixels: limits.maxPixels }).resize(width, height, {
    fit: 'fill',
  });
}
