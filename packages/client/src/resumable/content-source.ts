import { ConfigurationError } from '../errors.ts';
import { type ContentSource, type Opener, readContent } from './content-reader.ts';
import type { ResumableBody, SeekableContent } from './upload-options.ts';
import { createWindowSource } from './window-source.ts';

/** What a copy is held of where a request cannot be read from the content once more. */
const WINDOW_BYTES = 8 * 1024 * 1024;

/** What the caller says about the content, and what the runtime can do. */
export interface ContentTraits {
  /** Length in bytes, where the caller knows it. */
  bytes: number | undefined;
  chunkBytes: number | undefined;
  /** Whether requests can be sent that are not held in memory; browsers cannot, but for Blobs. */
  streams: boolean;
}

/**
 * Makes a body ready for a resumable upload.
 * @throws ConfigurationError where its length contradicts the one that was given
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
  // A stream of Node's that reads a file has an `open`, too.
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
        // Of content that is opened at `start`, what remains is what there is.
        return readContent(content, skipBytes, size - (start - skipBytes));
      };
      return { value: Object.assign(read, { size: size - start }), done: true };
    },
    close: () => undefined,
  };
}
