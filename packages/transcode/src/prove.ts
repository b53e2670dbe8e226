import { fileURLToPath } from 'node:url';
import type { Programs } from './ffmpeg/programs.ts';
import { type Format, formatById } from './formats.ts';
import type { IdentifiedFields } from './identified.ts';
import { openBytes } from './identify/bytes.ts';
import { identifyFile, readHeader } from './identify/identify.ts';
import type { EngineLimits } from './limits.ts';
import { type DecodedPicture, decodeSample } from './prove-av.ts';
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
  // A transport stream's `.ts` would be taken for TypeScript by the tools of this repository.
  const extension = format.extensions.find((candidate) => candidate !== 'ts');
  return fileURLToPath(new URL(`../samples/${format.id}.${extension}`, import.meta.url));
}

/** Decodes the sample of one registered format, looks at its colours and listens to its tone. */
export async function proveFormat(id: string, limits: EngineLimits, programs: Programs | null): Promise<ProvenFormat> {
  const format = formatById(id);
  try {
    const path = samplePath(format);
    const identified = await identifyFile(path, limits, programs);
    if (identified.format !== format.id) throw new Error(`The sample is taken for ${identified.format}.`);
    if (identified.tracks === null) holdColours(await decodeImage(path, identified, limits));
    else {
      if (programs === null) throw new Error('There is no ffmpeg.');
      const picture = await decodeSample(path, identified.tracks, format, { programs, limits });
      if (picture !== null) holdColours(picture);
      else if (format.kind === 'video') throw new Error('The sample has no picture.');
    }
    return { id: format.id, ok: true };
  } catch (error) {
    return { id: format.id, ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

async function decodeImage(path: string, identified: IdentifiedFields, limits: EngineLimits): Promise<DecodedPicture> {
  const bytes = openBytes(path);
  return decodeStill(path, readHeader(bytes, limits), identified, limits).finally(bytes.close);
}

/** Throws unless the picture shows the samples' quarters. */
function holdColours({ data, width, height, channels }: DecodedPicture): void {
  for (const { x, y, color } of quarters) {
    const at = (Math.floor(y * height) * width + Math.floor(x * width)) * channels;
    if (color.some((value, channel) => Math.abs((data[at + channel] ?? 0) - value) > tolerance)) {
      throw new Error(`The sample decodes to wrong colours (${[...data.subarray(at, at + 3)]} instead of ${color}).`);
    }
  }
}
