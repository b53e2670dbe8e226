import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** Whether a Content-Type is not readable text. */
export function isBinary(contentType: string | null): boolean {
  return !/^text\/|\bjson\b|\bxml\b|mpegurl/i.test(contentType ?? '');
}

/**
 * Writes the body of a response to a stream, with backpressure.
 * @param end whether to end the stream after the body; standard output must stay open
 * @param onBytes called with the length of every chunk
 * @throws the signal's reason, or the error of reading or writing
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
