import { MdsError } from './errors.ts';

/** Content of an upload. */
export type UploadContent = Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * A body to upload. Blobs, bytes and functions that open the content can be sent again after a failure; a stream can be read only once.
 */
export type UploadBody = UploadContent | (() => UploadContent);

/** Progress of an upload. Bytes count when the network accepts them, not when the service has received them. */
export interface UploadProgress {
  sentBytes: number;
  /** Null if the length is unknown. */
  totalBytes: number | null;
}

/** Additional options of fetch for a stream. */
interface StreamInit {
  duplex?: 'half';
  redirect?: 'error';
  window?: null;
}

/** An open body, for one attempt. */
export interface OpenBody {
  init: { body: Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> } & StreamInit;
  /** The runtime reports no progress, so a slow upload cannot be distinguished from a stuck one. */
  unobserved: boolean;
  /** The error of reading the content, if that failed. */
  failure(): MdsError | null;
  /** Closes the content: fetch leaves it open if it never read it, or if the answer came early. */
  close(): void;
}

/** A body with its properties. */
export interface UploadSource {
  replayable: boolean;
  /** Length in bytes; null if unknown. */
  bytes: number | null;
  /** @param onChunk called for every piece sent */
  open(onChunk: () => void): OpenBody;
}

/**
 * Prepares a body for sending, as a stream if the runtime can send one.
 * @param bytes the length, if the caller knows it and the body does not; content of another length fails
 */
export async function uploadSource(
  body: UploadBody,
  bytes: number | undefined,
  onProgress: ((progress: UploadProgress) => void) | undefined,
): Promise<UploadSource> {
  const inBrowser = 'document' in globalThis;
  if (!isWhole(body) && inBrowser && !runtimeSendsStreams()) {
    const content = typeof body === 'function' ? body() : body;
    return uploadSource(isWhole(content) ? content : await new Response(streamOf(content)).blob(), bytes, onProgress);
  }
  const totalBytes = bytes ?? (body instanceof Blob ? body.size : body instanceof Uint8Array ? body.byteLength : null);
  const replayable = typeof body === 'function' || isWhole(body);
  return {
    replayable,
    bytes: totalBytes,
    open(onChunk) {
      // Browsers stream only over HTTP/2, and need no stream for a whole Blob.
      if (inBrowser && isWhole(body)) return openWhole(body);
      const content = typeof body === 'function' ? body() : body;
      const stream = isWhole(content) ? new Blob([content]).stream() : streamOf(content);
      return openStream(stream, totalBytes, (sentBytes) => {
        onChunk();
        onProgress?.({ sentBytes, totalBytes });
      });
    },
  };
}

function isWhole(body: UploadBody): body is Blob | Uint8Array<ArrayBuffer> {
  return body instanceof Blob || body instanceof Uint8Array;
}

function openWhole(body: Blob | Uint8Array<ArrayBuffer>): OpenBody {
  return { init: { body }, unobserved: true, failure: () => null, close: () => undefined };
}

function openStream(
  source: ReadableStream<Uint8Array>,
  totalBytes: number | null,
  onSent: (bytes: number) => void,
): OpenBody {
  const reader = source.getReader();
  let sentBytes = 0;
  let failure: MdsError | null = null;
  const fail = (reason: string, cause?: unknown): MdsError => {
    failure = cause instanceof MdsError ? cause : new MdsError(`The body cannot be uploaded: ${reason}`, { cause });
    return failure;
  };
  const counted = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw fail(error instanceof Error ? error.message : String(error), error);
        });
        if (done) {
          if (totalBytes !== null && sentBytes < totalBytes) {
            throw fail(`it ended after ${sentBytes} of ${totalBytes} bytes`);
          }
          controller.close();
          return;
        }
        // A text stream gives strings, which fetch refuses without a clear error.
        if (!ArrayBuffer.isView(value)) throw fail('it has to be made of Uint8Array');
        sentBytes += value.byteLength;
        if (totalBytes !== null && sentBytes > totalBytes) throw fail(`it is longer than ${totalBytes} bytes`);
        controller.enqueue(value);
        onSent(sentBytes);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return {
    init: { body: counted, duplex: 'half', ...withoutCopy() },
    unobserved: false,
    failure: () => failure,
    close() {
      // The result of the request is known; an error on closing does not change it.
      reader.cancel().catch(() => undefined);
    },
  };
}

/** `ReadableStream.from`, which not every runtime has yet. */
function streamOf(content: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  if (content instanceof ReadableStream) return content;
  // Without a listener, a Node stream that fails before its first read would crash the process. The iterator throws the same error.
  if ('on' in content && typeof content.on === 'function') content.on('error', () => undefined);
  const iterator = content[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await iterator.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        // An unread Node stream would keep its file open: its iterator has not started, so its return() does nothing.
        if ('destroy' in content && typeof content.destroy === 'function') content.destroy();
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/**
 * Node's fetch keeps a copy of a sent stream in memory for redirects, although it cannot send the stream again (the fetch standard, 4.4).
 * It does not if redirects are errors and there is no window. Not every edge runtime supports that option.
 */
function withoutCopy(): StreamInit {
  try {
    return new Request('http://localhost', { redirect: 'error' }).redirect === 'error'
      ? { redirect: 'error', window: null }
      : {};
  } catch {
    return {};
  }
}

/** A runtime without request streams treats one as text: it sets a Content-Type and never reads `duplex`. */
function runtimeSendsStreams(): boolean {
  let looked = false;
  const request = new Request('data:,', {
    method: 'POST',
    body: new ReadableStream(),
    get duplex() {
      looked = true;
      return 'half';
    },
  } as RequestInit);
  return looked && !request.headers.has('content-type');
}
