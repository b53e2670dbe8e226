import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

/** SHA-256 of a whole stream, in lower-case hex. @param onBytes called with the length of each piece */
export async function hashStream(stream: Readable, onBytes?: (count: number) => void): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of stream as AsyncIterable<Buffer>) {
    hash.update(piece);
    onBytes?.(piece.length);
  }
  return hash.digest('hex');
}
