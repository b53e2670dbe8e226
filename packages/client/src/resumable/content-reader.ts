import { MdsError } from '../errors.ts';
import type { UploadContent } from '../upload-source.ts';

/** The body of one request: bytes in memory, or content that is opened when the request is sent. */
export type Piece = Blob | OpenedPiece;

/** A function that opens content, with the number of its bytes. */
export type OpenedPiece = (() => AsyncIterable<Uint8Array>) & { size: number };

/** Content, as tus reads it. */
export interface ContentSource {
  /** Length in bytes; null if unknown. */
  readonly size: number | null;
  /** Whether it can be sent again from its beginning. */
  readonly reopenable: boolean;
  /** Maximum bytes of one request. */
  readonly chunkBytes: number;
  /**
   * The bytes from `start` to `end`, fewer if the content ends before. `done`: they are the last ones.
   * @throws BodyError if the content does not match its description
   */
  slice(start: number, end: number): Promise<{ value: Piece | null; done: boolean }>;
  /** Closes the open content. */
  close(): void;
}

/** Opens content at a byte, or `skipBytes` before it. */
export type Opener = (start: number) => { content: UploadContent; skipBytes: number };

/** An error of the caller's content: it does not match its description, or it cannot be read. */
export class BodyError extends MdsError {
  constructor(reason: string, cause?: unknown) {
    super(`The body cannot be uploaded: ${reason}`, { cause });
  }
}

/**
 * Reads content piece by piece, starting at a byte. The last piece is held back until the end is known, so that content that is too long
 * is never sent completely and accepted.
 * @param skipBytes how many bytes at the beginning are skipped
 * @param totalBytes length of the content including `skipBytes`; null if unknown
 * @throws BodyError if the content cannot be read, or has another length
 */
export async function* readContent(
  content: UploadContent,
  skipBytes: number,
  totalBytes: number | null,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
  let at = 0;
  let held: Uint8Array<ArrayBuffer> | null = null;
  for await (const piece of pieces(content)) {
    const begin = at;
    at += piece.byteLength;
    if (totalBytes !== null && at > totalBytes) throw new BodyError(`it is longer than ${totalBytes} bytes`);
    if (at <= skipBytes || piece.byteLength === 0) continue;
    if (held) yield held;
    held = piece.subarray(Math.max(0, skipBytes - begin));
  }
  if (totalBytes !== null && at < totalBytes) throw new BodyError(`it ended after ${at} of ${totalBytes} bytes`);
  if (at < skipBytes) throw new BodyError(`it ended after ${at} bytes, and the service has ${skipBytes} already`);
  if (held) yield held;
}

async function* pieces(content: UploadContent): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
  try {
    for await (const piece of iterable(content)) {
      // A text stream gives strings.
      if (!ArrayBuffer.isView(piece)) throw new BodyError('it has to be made of Uint8Array');
      yield piece as Uint8Array<ArrayBuffer>;
    }
  } catch (error) {
    if (error instanceof BodyError) throw error;
    throw new BodyError(error instanceof Error ? error.message : String(error), error);
  }
}

function iterable(content: UploadContent): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  if (content instanceof Uint8Array) return [content];
  if (typeof content !== 'object' || content === null) {
    throw new BodyError(
      `it has to be bytes, a Blob, a stream or an async iterable, not ${content === null ? 'null' : typeof content}`,
    );
  }
  const source = content instanceof Blob ? content.stream() : content;
  // Not every browser can iterate over a stream.
  return Symbol.asyncIterator in source ? source : readAll(source as ReadableStream<Uint8Array>);
}

async function* readAll(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}

/** Closes content that was not read to its end. Errors on closing are of no use any more. */
export function releaseContent(content: UploadContent): void {
  if ('destroy' in content && typeof content.destroy === 'function') content.destroy();
  else if (content instanceof ReadableStream && !content.locked) content.cancel().catch(() => undefined);
}
