import { fileURLToPath } from 'node:url';
import type { Programs } from './ffmpeg/programs.ts';
import { type Format, formatById } from './formats.ts';
import type { IdentifiedFields } from './identified.ts';
import { openBytes } from './identify/bytes.ts';
import { identifyFile, readHeader } from './identify/identify.ts';
import type { EngineLimits } from './limits.ts';
import { type DecodedPicture, decodeSample } from './prove-av.ts';
import { decodeStill } from './render/decode.ts';

/** Shows whether this machine can decode a registered format. */
export interface ProvenFormat {
  readonly id: string;
  readonly ok: boolean;
  /** Why it failed. */
  readonly reason?: string;
}

/** The picture in every sample: quarters of red, green, blue and white, from the top left. */
const quarters = [
  { x: 0.25, y: 0.25, color: [255, 0, 0] },
  { x: 0.75, y: 0.25, color: [0, 255, 0] },
  { x: 0.25, y: 0.75, color: [0, 0, 255] },
  { x: 0.75, y: 0.75, color: [255, 255, 255] },
] as const;

/** Lossy samples differ from pure colours, but less than this. */
const tolerance = 48;

/** Path of the bundled sample of a format; the same from `src` and from `dist`. */
export function samplePath(format: Format): string {
  // This repository's tools would take the `.ts` of a transport stream for TypeScript.
  const extension = format.extensions.find((candidate) => candidate !== 'ts');
  return fileURLToPath(new URL(`../samples/${format.id}.${extension}`, import.meta.url));
}

/** Decodes the sample of one registered format and checks its colours and its tone. */
export async function proveFormat(id: string, limits: EngineLimits, programs: Programs | null): Promise<ProvenFormat> {
  const format = formatById(id);
  try {
    const path = samplePath(format);
    const identified = await identifyFile(path, limits, programs);
    if (identified.format !== format.id) throw new Error(`The sample was identified as ${identified.format}.`);
    if (identified.tracks === null) assertColours(await decodeImage(path, identified, limits));
    else {
      if (programs === null) throw new Error('ffmpeg is not installed.');
      const picture = await decodeSample(path, identified.tracks, format, { programs, limits });
      if (picture !== null) assertColours(picture);
      else if (format.kind === 'video') throw new Error('The sample has no video.');
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

/** Throws unless the image shows the samples' quarters. */
function assertColours({ data, width, height, channels }: DecodedPicture): void {
  for (const { x, y, color } of quarters) {
    const at = (Math.floor(y * height) * width + Math.floor(x * width)) * channels;
    if (color.some((value, channel) => Math.abs((data[at + channel] ?? 0) - value) > tolerance)) {
      throw new Error(`The sample decodes to wrong colours (${[...data.subarray(at, at + 3)]} instead of ${color}).`);
    }
  }
}
