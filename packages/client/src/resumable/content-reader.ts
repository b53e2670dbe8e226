import { MdsError } from '../errors.ts';
import type { UploadContent } from '../upload-source.ts';

/** What one request takes along: bytes that are there, or content that is opened when the request goes out. */
export type Piece = Blob | OpenedPiece;

/** A function, with the number of bytes that what it opens has. */
export type OpenedPiece = (() => AsyncIterable<Uint8Array>) & { size: number };

/** Content as tus asks for it. */
export interface ContentSource {
  /** Length in bytes, null where it is not known. */
  readonly size: number | null;
  /** Whether it can be sent from its beginning once more. */
  readonly reopenable: boolean;
  /** The most that one request takes. */
  readonly chunkBytes: number;
  /**
   * The bytes from `start` to `end`, fewer where the content ends before. `done`: there is nothing behind them.
   * @throws BodyError where the content is not what it was said to be
   */
  slice(start: number, end: number): Promise<{ value: Piece | null; done: boolean }>;
  /** Lets go of what is open. */
  close(): void;
}

/** Opens content at a byte, or before it: `skipBytes` says how much comes before. */
export type Opener = (start: number) => { content: UploadContent; skipBytes: number };

/** The caller's own fault: the content is not what it was said to be, or cannot be read. */
export class BodyError extends MdsError {
  constructor(reason: string, cause?: unknown) {
    super(`The body cannot be uploaded: ${reason}`, { cause });
  }
}

/**
 * Reads content piece by piece, from a byte on. The last piece is held back until the end has been seen, so that content
 * that is longer than it should be is never sent whole, and taken for right.
 * @param skipBytes how much of what comes first is left out
 * @param totalBytes length of the content from its very beginning, `skipBytes` included; null where it is not known
 * @throws BodyError where the content cannot be read, or has another length
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
      // A reader of text would hand out strings.
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
  // Not every browser can iterate over a stream yet.
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

/** Closes content that was not read to its end, or never begun: what it says on that is of no use any more. */
export function releaseContent(content: UploadContent): void {
  if ('destroy' in content && typeof content.destroy === 'function') content.destroy();
  else if (content instanceof ReadableStream && !content.locked) content.cancel().catch(() => undefined);
}
