import { copyFile, rename, rm } from 'node:fs/promises';
import { openBytes } from '../identify/bytes.ts';
import { readImageHeader } from '../identify/image/read-header.ts';
import { sniff, sniffBytes } from '../identify/sniff.ts';

/** What a finished file says of itself. */
export interface OutputFacts {
  bytes: number;
  width: number;
  height: number;
  frames: number;
  durationMs: number | null;
}

/**
 * Has a file written under a temporary name beside its place, reads it back, and only then gives it its name. Throws, and
 * leaves nothing behind, where writing fails or the file is not the picture of that size that it should be.
 */
export async function writeWhole(
  path: string,
  size: { width: number; height: number },
  write: (temporary: string) => Promise<unknown>,
): Promise<OutputFacts> {
  const temporary = `${path}.partial`;
  try {
    await write(temporary);
    const facts = readBack(temporary);
    if (facts.width !== size.width || facts.height !== size.height) {
      throw new Error(`it came out ${facts.width} x ${facts.height} instead of ${size.width} x ${size.height}`);
    }
    await rename(temporary, path);
    return facts;
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** A second rendition with the same bytes. */
export async function copyWhole(from: string, to: string): Promise<void> {
  const temporary = `${to}.partial`;
  try {
    await copyFile(from, temporary);
    await rename(temporary, to);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

function readBack(path: string): OutputFacts {
  const bytes = openBytes(path);
  try {
    const sniffed = sniff(bytes.peek(0, sniffBytes));
    if ('looksLike' in sniffed) throw new Error(`it came out as ${sniffed.looksLike}`);
    const header = readImageHeader(sniffed.format, bytes, { maxFrames: Infinity, maxPixels: Infinity });
    if (header.warnings.length > 0) throw new Error(`it came out incomplete: ${header.warnings.join(' ')}`);
    return {
      bytes: bytes.size,
      width: header.width,
      height: header.height,
      frames: header.frames,
      durationMs: header.durationMs,
    };
  } finally {
    bytes.close();
  }
}
