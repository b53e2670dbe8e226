import { ConfigurationError } from '../errors.ts';
import { type ContentSource, type Opener, readContent } from './content-reader.ts';
import type { ResumableBody, SeekableContent } from './upload-options.ts';
import { createWindowSource } from './window-source.ts';

/** Size of the copy that is kept in memory if the content cannot be read again. */
const WINDOW_BYTES = 8 * 1024 * 1024;

/** Properties of the content and of the runtime. */
export interface ContentTraits {
  /** Length in bytes, if the caller knows it. */
  bytes: number | undefined;
  chunkBytes: number | undefined;
  /** Whether the runtime can send bodies that are not in memory; browsers can only send Blobs. */
  streams: boolean;
}

/**
 * Prepares a body for a resumable upload.
 * @throws ConfigurationError if its length differs from the given one
 */
export function contentSource(body: ResumableBody, { bytes, chunkBytes, streams }: ContentTraits): ContentSource {
  const whole = wholeOf(body);
  const size = whole?.size ?? (isSeekable(body) ? body.bytes : undefined) ?? bytes ?? null;
  if (size !== null && bytes !== undefined && size !== bytes) {
    throw new ConfigurationError(`bytes is ${bytes}, and the body has ${size}`);
  }
  for (const [name, value, least] of [['bytes', size, 0] as const, ['chunkBytes', chunkBytes ?? null, 1] as const]) {
    if (value === null || (Number.isSafeInteger(value) && value >= least)) continue;
    throw new ConfigurationError(`${name} has to be a whole number from ${least} up`);
  }
  if (whole) return blobSource(whole, chunkBytes ?? Number.POSITIVE_INFINITY);
  const open = openerOf(body);
  if (open && size !== null && streams && chunkBytes === undefined) return openedSource(open, size);
  const first = open ? null : (body as AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>);
  return createWindowSource({ size, chunkBytes: chunkBytes ?? WINDOW_BYTES, first, open });
}

function openerOf(body: ResumableBody): Opener | null {
  if (typeof body === 'function') return (start) => ({ content: body(), skipBytes: start });
  if (isSeekable(body)) return (start) => ({ content: body.open(start), skipBytes: 0 });
  return null;
}

function wholeOf(body: ResumableBody): Blob | null {
  if (body instanceof Blob) return body;
  return body instanceof Uint8Array ? new Blob([body]) : null;
}

function isSeekable(body: ResumableBody): body is SeekableContent {
  // A Node stream that reads a file also has an `open`.
  return typeof body === 'object' && 'open' in body && 'bytes' in body && !(Symbol.asyncIterator in body);
}

function blobSource(blob: Blob, chunkBytes: number): ContentSource {
  return {
    size: blob.size,
    reopenable: true,
    chunkBytes,
    slice: async (start, end) => ({ value: blob.slice(start, end), done: end >= blob.size }),
    close: () => undefined,
  };
}

function openedSource(open: Opener, size: number): ContentSource {
  return {
    size,
    reopenable: true,
    chunkBytes: Number.POSITIVE_INFINITY,
    async slice(start) {
      const read = () => {
        const { content, skipBytes } = open(start);
        // Content that is opened at `start` has only the remaining bytes.
        return readContent(content, skipBytes, size - (start - skipBytes));
      };
      return { value: Object.assign(read, { size: size - start }), done: true };
    },
    close: () => undefined,
  };
}
