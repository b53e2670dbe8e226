import type { DetailedError, HttpResponse, HttpStack } from 'tus-js-client';
import { MdsError } from '../errors.ts';
import type { ContentSource } from './content-reader.ts';

type Tus = typeof import('tus-js-client');

/** State of an upload. */
export interface UploadState {
  /** Its address; null before it is created. */
  url: string | null;
  /** Length of the content; null until it is known. */
  size: number | null;
  /** Bytes that the service has. */
  acceptedBytes: number;
}

/** Parts of one attempt. */
export interface AttemptParts {
  tus: Tus;
  stack: HttpStack;
  source: ContentSource;
  endpoint: string;
  metadata: Record<string, string>;
  /** Updated during the attempt. */
  state: UploadState;
  signal: AbortSignal | undefined;
  /** Called after the upload was created and before content is sent. */
  onCreated(url: string): Promise<void>;
  onProgress(sentBytes: number): void;
}

/** The upload to resume has another length than the content. */
export class AnotherLengthError extends MdsError {}

/** The service already knows the length, which the content does not know before its end: try again with that length. */
export class LengthKnownError extends MdsError {}

/**
 * Creates the upload or requests its offset, and sends the rest.
 * @returns the last answer
 * @throws the error of a failed request, as an error of this client; the signal's reason
 */
export function attemptUpload(parts: AttemptParts): Promise<HttpResponse> {
  const { tus, stack, source, endpoint, metadata, state, signal } = parts;
  return new Promise((resolve, reject) => {
    let settled = false;
    const settle = (end: () => void) => {
      if (settled) return;
      settled = true;
      signal?.removeEventListener('abort', onAbort);
      end();
    };
    const fail = (error: unknown) =>
      settle(() => {
        // Ends the current request and its callbacks.
        upload.abort().catch(() => undefined);
        reject(error);
      });
    const onAbort = () => fail(signal?.reason);
    /** A callback of the caller may throw; tus would treat that as a failed request. */
    const guarded = (action: () => void) => {
      try {
        action();
      } catch (error) {
        fail(error);
      }
    };

    const accepted = (bytes: number) => {
      state.acceptedBytes = bytes;
      parts.onProgress(bytes);
    };

    const upload = new tus.Upload(source as never, {
      endpoint,
      uploadUrl: state.url,
      metadata,
      uploadSize: state.size,
      uploadLengthDeferred: state.size === null,
      chunkSize: source.chunkBytes,
      // The caller counts and spaces the attempts.
      retryDelays: null,
      httpStack: stack,
      fileReader: { openFile: () => Promise.resolve(source as never) },
      fingerprint: () => Promise.resolve('upload'),
      urlStorage: {
        ...{
          findAllUploads: async () => [],
          findUploadsByFingerprint: async () => [],
          removeUpload: async () => undefined,
        },
        // The only place where tus waits for its caller between the creation and the first byte.
        async addUpload(key) {
          if (state.url === null) {
            try {
              state.url = upload.url ?? '';
              await parts.onCreated(state.url);
            } catch (error) {
              fail(error);
            }
          }
          return key;
        },
      },
      onUploadUrlAvailable: () =>
        guarded(() => {
          upload.url = state.url ?? ownAddress(endpoint, upload.url ?? '');
        }),
      onProgress: (sentBytes) => guarded(() => parts.onProgress(sentBytes)),
      onChunkComplete: (_, acceptedBytes) => guarded(() => accepted(acceptedBytes)),
      async onAfterResponse(request, response) {
        if (request.getMethod() !== 'HEAD') return;
        const length = numberOf(response, 'Upload-Length');
        if (length !== null && state.size !== null && length !== state.size) {
          throw new AnotherLengthError(`the upload is for ${length} bytes, the content has ${state.size}`);
        }
        const offset = numberOf(response, 'Upload-Offset');
        if (offset !== null) guarded(() => accepted(offset));
        if (length !== null && state.size === null) {
          state.size = length;
          throw new LengthKnownError(`the upload is ${length} bytes long`);
        }
      },
      onSuccess: ({ lastResponse }) => settle(() => resolve(lastResponse)),
      onError: (error) => fail(causeOf(error)),
    });
    if (signal?.aborted) onAbort();
    else {
      signal?.addEventListener('abort', onAbort, { once: true });
      upload.start();
    }
  });
}

/**
 * The address of an upload, made from its id. Behind a proxy, the service may not know its public address, and the token must not be sent
 * to another one.
 * @throws MdsError if the service returned no address of an upload
 */
export function ownAddress(endpoint: string, location: string): string {
  const id = /\/([\w.-]*\w[\w.-]*)$/.exec(location)?.[1];
  if (id === undefined)
    throw new MdsError(`POST ${endpoint} answered with ${JSON.stringify(location)} for the address of an upload`);
  return `${endpoint}/${id}`;
}

function causeOf(error: Error | DetailedError): unknown {
  const cause = 'causingError' in error ? error.causingError : null;
  return cause ?? new MdsError(error.message, { cause: error });
}

function numberOf(response: HttpResponse, field: string): number | null {
  const text = response.getHeader(field) as string | null | undefined;
  return text && /^\d+$/.test(text) ? Number(text) : null;
}
