import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** Whether a Content-Type is of something that is not for reading. */
export function isBinary(contentType: string | null): boolean {
  return !/^text\/|\bjson\b|\bxml\b|mpegurl/i.test(contentType ?? '');
}

/**
 * Writes the body of an answer to a stream, as fast as the stream takes it.
 * @param end whether the stream ends with the body; standard output does not
 * @param onBytes called with the length of every piece
 * @throws the signal's reason; what reading or writing fails with
 */
export async function writeAll(
  target: Writable,
  response: Response,
  { end, signal }: { end: boolean; signal: AbortSignal },
  onBytes: (bytes: number) => void = () => undefined,
): Promise<void> {
  async function* pieces(): AsyncGenerator<Uint8Array> {
    if (!response.body) return;
    for await (const piece of Readable.fromWeb(response.body)) {
      onBytes(piece.byteLength);
      yield piece;
    }
  }
  await pipeline(pieces, target, { end, signal });
}
