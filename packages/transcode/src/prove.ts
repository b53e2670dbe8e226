import { fileURLToPath } from 'node:url';
import { type Format, formatById } from './formats.ts';
import { openBytes } from './identify/bytes.ts';
import { identifyFile, readHeader } from './identify/identify.ts';
import type { EngineLimits } from './limits.ts';
import { decodeStill } from './render/decode.ts';

/** Whether this machine can decode a registered format. */
export interface ProvenFormat {
  readonly id: string;
  readonly ok: boolean;
  /** Why not. */
  readonly reason?: string;
}

/** What every sample shows: a quarter each of red, green, blue and white, from the top left. */
const quarters = [
  { x: 0.25, y: 0.25, color: [255, 0, 0] },
  { x: 0.75, y: 0.25, color: [0, 255, 0] },
  { x: 0.25, y: 0.75, color: [0, 0, 255] },
  { x: 0.75, y: 0.75, color: [255, 255, 255] },
] as const;

/** Lossy samples stray from pure colours, though not this far. */
const tolerance = 48;

/** Address of the bundled sample of a format; the same from `src` and from `dist`. */
export function samplePath(format: Format): string {
  return fileURLToPath(new URL(`../samples/${format.id}.${format.extensions[0]}`, import.meta.url));
}

/** Decodes the sample of one registered format and looks at its colours. */
export async function proveFormat(id: string, limits: EngineLimits): Promise<ProvenFormat> {
  const format = formatById(id);
  try {
    const path = samplePath(format);
    const identified = await identifyFile(path, limits);
    if (identified.format !== format.id) throw new Error(`The sample is taken for ${identified.format}.`);
    const bytes = openBytes(path);
    const { data, width, height, channels } = await decodeStill(
      path,
      readHeader(bytes, limits),
      identified,
      limits,
    ).finally(bytes.close);
    for (const { x, y, color } of quarters) {
      const at = (Math.floor(y * height) * width + Math.floor(x * width)) * channels;
      if (color.some((value, channel) => Math.abs((data[at + channel] ?? 0) - value) > tolerance)) {
        throw new Error(`The sample decodes to wrong colours (${[...data.subarray(at, at + 3)]} instead of ${color}).`);
      }
    }
    return { id: format.id, ok: true };
  } catch (error) {
    return { id: format.id, ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}
