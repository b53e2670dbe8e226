import { copyFile, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { openBytes } from '../identify/bytes.ts';
import { readImageHeader } from '../identify/image/read-header.ts';
import { sniff } from '../identify/sniff.ts';
import type { PlannedRendition } from '../plan.ts';
import type { ReadyRendition } from './result.ts';

/** Facts about a finished file. */
export interface OutputFacts {
  bytes: number;
  width: number;
  height: number;
  frames: number;
  durationMs: number | null;
}

/** A finished rendition of one file. */
export function readyFile(
  { name, extension, revision }: PlannedRendition,
  path: string,
  facts: OutputFacts,
  notes: readonly string[] = [],
): ReadyRendition {
  return { name, extension, revision, state: 'ready', path, ...facts, files: null, notes };
}

/**
 * Writes a file under a temporary name, reads it back, and only then gives it its final name. If writing fails or `readBack`
 * throws, it throws and leaves nothing behind.
 */
export async function writeVerified<T>(
  path: string,
  write: (temporary: string) => Promise<unknown>,
  readBack: (temporary: string) => T | Promise<T>,
): Promise<T> {
  const temporary = `${path}.partial`;
  try {
    await write(temporary);
    const facts = await readBack(temporary);
    await rename(temporary, path);
    return facts;
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** {@link writeVerified} for an image. Throws if the file is not an image of that size. */
export function writeVerifiedImage(
  path: string,
  size: { width: number; height: number },
  write: (temporary: string) => Promise<unknown>,
): Promise<OutputFacts> {
  return writeVerified(path, write, (temporary) => {
    const facts = readPicture(temporary);
    if (facts.width !== size.width || facts.height !== size.height) {
      throw new Error(`the encoded file is ${facts.width} x ${facts.height} instead of ${size.width} x ${size.height}`);
    }
    return facts;
  });
}

/** {@link writeVerified} for a text. */
export function writeVerifiedText(path: string, text: string): Promise<OutputFacts> {
  return writeVerified(
    path,
    (temporary) => writeFile(temporary, text),
    async (temporary) => {
      const bytes = await readFile(temporary);
      if (bytes.toString('utf8') !== text) throw new Error('the file differs from the text that was written');
      return { bytes: bytes.length, width: 0, height: 0, frames: 1, durationMs: null };
    },
  );
}

/** Copies a rendition for another one with the same bytes. */
export async function copyRendition(from: string, to: string): Promise<void> {
  const temporary = `${to}.partial`;
  try {
    await copyFile(from, temporary);
    await rename(temporary, to);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

function readPicture(path: string): OutputFacts {
  const bytes = openBytes(path);
  try {
    const sniffed = sniff(bytes);
    if ('looksLike' in sniffed) throw new Error(`the encoded file looks like ${sniffed.looksLike}`);
    if ('container' in sniffed) throw new Error(`the encoded file is ${sniffed.container}`);
    const header = readImageHeader(sniffed.format, bytes, { maxFrames: Infinity, maxPixels: Infinity });
    if (header.warnings.length > 0) throw new Error(`the encoded file is incomplete: ${header.warnings.join(' ')}`);
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
