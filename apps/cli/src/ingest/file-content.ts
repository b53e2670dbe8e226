import type { Stats } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileVersion } from '../journal/journal.ts';
import { codeOf, reasonOf } from './walk-folder.ts';

/** A file could not be read as expected. The service is not at fault. */
export class SourceError extends Error {
  override name = 'SourceError';
  readonly code: 'file_changed' | 'file_gone' | 'file_unreadable';

  constructor(code: SourceError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

const PIECE_BYTES = 256 * 1024;

/**
 * Reads the content of a file on demand. It yields the last piece only after checking that the file is unchanged. A file that
 * somebody writes to meanwhile therefore never arrives complete, and the service keeps nothing of it.
 * @param expected the version of the file when it was found
 * @param start offset of the first byte to read
 * @throws SourceError if the file is gone, cannot be read, or changed
 */
export async function* fileContent(path: string, expected: FileVersion, start = 0): AsyncGenerator<Uint8Array> {
  const handle = await open(path, 'r').catch((error: unknown) => {
    throw sourceError(error, path);
  });
  try {
    const first = await handle.stat();
    if (!isVersion(first, expected)) throw changed();
    let held: Uint8Array | null = null;
    for (let position = start; ; ) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(PIECE_BYTES), 0, PIECE_BYTES, position);
      if (bytesRead === 0) break;
      position += bytesRead;
      if (held !== null) yield held;
      held = buffer.subarray(0, bytesRead);
    }
    const last = await handle.stat();
    // Check ctime too: programs such as file servers reset mtime after a write, but cannot reset ctime.
    if (!isVersion(last, expected) || last.ctimeMs !== first.ctimeMs) throw changed();
    if (held !== null) yield held;
  } catch (error) {
    throw error instanceof SourceError ? error : sourceError(error, path);
  } finally {
    await handle.close();
  }
}

/** Whether a file still has this version. */
export function isVersion({ size, mtimeMs }: Pick<Stats, 'size' | 'mtimeMs'>, version: FileVersion): boolean {
  return size === version.bytes && mtimeMs === version.mtimeMs;
}

function changed(): SourceError {
  return new SourceError('file_changed', 'The file changed while it was read.');
}

function sourceError(error: unknown, path: string): SourceError {
  if (codeOf(error) === 'ENOENT') return new SourceError('file_gone', 'The file is no longer there.', error);
  return new SourceError('file_unreadable', `The file cannot be read: ${reasonOf(error, path)}.`, error);
}
