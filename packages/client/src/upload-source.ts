import { MdsError } from './errors.ts';

/** What can be uploaded at once. */
export type UploadContent = Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * A body to upload. Blobs, bytes and functions that open the content anew can be sent again after a failure; a stream can
 * be read once.
 */
export type UploadBody = UploadContent | (() => UploadContent);

/** How far an upload is. Bytes count when the network takes them, not when the service has them. */
export interface UploadProgress {
  sentBytes: number;
  /** Null where the length is not known. */
  totalBytes: number | null;
}

/** What fetch is told besides, where the body is a stream. */
interface StreamInit {
  duplex?: 'half';
  redirect?: 'error';
  window?: null;
}

/** A body on its way out, for one attempt. */
export interface OpenBody {
  init: { body: Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> } & StreamInit;
  /** The runtime sends it out of sight, so that nobody can tell a slow upload from a stuck one. */
  unobserved: boolean;
  /** The caller's own fault, where reading the content is what failed. */
  failure(): MdsError | null;
  /** Lets go of the content: fetch leaves it open where it never began to read, or was answered half-way. */
  close(): void;
}

/** A body and what is known about it. */
export interface UploadSource {
  replayable: boolean;
  /** Length in bytes, null where it is not known. */
  bytes: number | null;
  /** @param onChunk called for every piece that goes out */
  open(onChunk: () => void): OpenBody;
}

/**
 * Makes a body ready to be sent, as a stream where the runtime can send one.
 * @param bytes the length, where the caller knows it and the body does not; content of another length fails
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
      // Browsers stream over HTTP/2 alone, and do well without where they have all of it.
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
        // A reader of text would hand out strings, which fetch refuses without saying whose they are.
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
      // How the request went is known by now; nothing that the content says on being closed changes that.
      reader.cancel().catch(() => undefined);
    },
  };
}

/** `ReadableStream.from`, which not every runtime has yet. */
function streamOf(content: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  if (content instanceof ReadableStream) return content;
  // A Node stream that fails before it is first read from would end the program; who iterates it hears of it all the same.
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
        // A stream of Node's, not read yet, would keep its file open: its iterator has not begun, and ends without a word.
        if ('destroy' in content && typeof content.destroy === 'function') content.destroy();
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/**
 * Node's fetch keeps in memory what a stream has sent, for a redirect after which it could not send it again all the same
 * (the fetch standard, 4.4), unless redirects are refused and there is no window. Not every edge runtime knows how to refuse.
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

/** A runtime that knows no request streams takes one for text: it sets a Content-Type and never looks at `duplex`. */
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
