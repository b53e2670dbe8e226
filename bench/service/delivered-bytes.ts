import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { StoredObjects, StoredRendition } from './stored-objects.ts';

/**
 * Checks the bytes that a side sends. A complete rendition must match the recorded hash, a range the bytes of the file.
 * @returns the defects
 */
export async function wrongBytes(
  side: string,
  url: string,
  { dataDir }: Pick<StoredObjects, 'dataDir'>,
  { path, file, sha256, bytes }: StoredRendition,
  range?: string,
): Promise<string[]> {
  const answer = await fetch(url + path, { headers: range === undefined ? {} : { range } });
  const digest = createHash('sha256');
  let length = 0;
  for await (const chunk of answer.body ?? []) {
    digest.update(chunk);
    length += chunk.length;
  }
  const expected =
    range === undefined ? { status: 200, length: bytes, sha256 } : await stretch(join(dataDir, file), range);
  if (answer.status !== expected.status) return [`${side} answers ${path} with ${answer.status}`];
  if (length !== expected.length) return [`${side} sends ${length} bytes of ${path} instead of ${expected.length}`];
  return digest.digest('hex') === expected.sha256 ? [] : [`${side} sends other bytes of ${path}`];
}

async function stretch(file: string, range: string) {
  const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
  const length = Number(end) - Number(start) + 1;
  const handle = await open(file);
  try {
    const { buffer } = await handle.read(Buffer.alloc(length), 0, length, Number(start));
    return { status: 206, length, sha256: createHash('sha256').update(buffer).digest('hex') };
  } finally {
    await handle.close();
  }
}

/** Returns a problem unless the service answers from its cache: the benchmarks measure HITs. */
export async function notFromCache(url: string, path: string): Promise<string[]> {
  const { headers } = await fetch(url + path, { method: 'HEAD' });
  return headers.get('x-cache') === 'HIT'
    ? []
    : [`the service answers ${path} with X-Cache: ${headers.get('x-cache')}`];
}
