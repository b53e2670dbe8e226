import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { connectionFailure } from './connection-failure.ts';
import type { Connect } from './guarded-connector.ts';
import { parseRetryAfterMs } from './retry-after.ts';
import { SourceError } from './source-error.ts';
import { type SourceUrl, sourceUrlOf } from './source-url.ts';
import { contentLengthOf, contentRangeOf, validatorOf } from './validators.ts';

/** The part of a file that has arrived already, and the validator by which the source recognizes the file. */
export interface Resumption {
  bytes: number;
  validator: string;
  /** Null if the source did not announce it. */
  totalBytes: number | null;
}

/** The answer of a source, with its file. */
export interface SourceAnswer {
  /** Position of the first byte: 0, or the length of the part. */
  from: number;
  /** As announced by the source; null if it was not. */
  totalBytes: number | null;
  /** The validator for a later `If-Range`; null if a broken transfer has to begin anew. */
  validator: string | null;
  /** Its pieces. Throws SourceError if the connection ends before the file does. */
  body: AsyncIterator<Uint8Array>;
}

/** Reads files from the web. */
export interface HttpSource {
  /**
   * Requests a file, follows redirects, and passes the answer to `use` when its head has arrived. Every connection is closed at the end.
   * @param resume continues there if the source still has the same file, else begins anew
   * @throws SourceError
   */
  read<T>(
    url: string,
    options: { resume: Resumption | null; signal: AbortSignal },
    use: (answer: SourceAnswer) => Promise<T>,
  ): Promise<T>;
}

export interface HttpSourceParts {
  /** Connects to permitted addresses only. */
  connect: Connect;
  /** From the start of a request, lookup and connection included, to the end of the answer's head; for each hop. */
  firstByteMs?: number;
}

const FIRST_BYTE_MS = 30_000;
const MAX_REDIRECTS = 5;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Statuses that may pass soon. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504]);
const USER_AGENT = 'media-delivery-service';

/** Every value of each field. */
type Fields = IncomingMessage['headersDistinct'];

/** {@link HttpSource}. Uses no proxies of the environment, no cookies and no credentials. */
export function createHttpSource({ connect, firstByteMs = FIRST_BYTE_MS }: HttpSourceParts): HttpSource {
  /** One hop: its answer with the body unread. */
  const ask = async (url: SourceUrl, resume: Resumption | null, signal: AbortSignal): Promise<IncomingMessage> => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(tookTooLong(firstByteMs)), firstByteMs);
    const either = AbortSignal.any([signal, late.signal]);
    try {
      const socket = await unlessAborted(connect(url, either), either);
      return await answerOf(socket, url, resume, either);
    } catch (error) {
      signal.throwIfAborted();
      throw late.signal.aborted ? late.signal.reason : connectionFailure(error);
    } finally {
      clearTimeout(timer);
    }
  };

  const follow = async (first: string, resume: Resumption | null, signal: AbortSignal) => {
    let url = sourceUrlOf(first);
    for (let redirects = 0; ; redirects++) {
      const answer = await ask(url, resume, signal);
      const { location } = answer.headers;
      if (!REDIRECTS.has(answer.statusCode ?? 0) || location === undefined) return answer;
      answer.destroy();
      if (redirects === MAX_REDIRECTS) {
        throw new SourceError('source_refused', `The source redirects more than ${MAX_REDIRECTS} times.`);
      }
      url = sourceUrlOf(location, url);
    }
  };

  return {
    async read(url, { resume, signal }, use) {
      let answer = await follow(url, resume, signal);
      try {
        if (resume && !continues(answer, resume)) {
          // RFC 9110, 13.1.5: a 200 has the whole current file. Any other answer to a range is not about the file.
          if (answer.statusCode === 206 || answer.statusCode === 416) {
            answer.destroy();
            answer = await follow(url, null, signal);
          }
          resume = null;
        }
        return await use(resume ? rest(answer, resume, signal) : whole(answer, signal));
      } finally {
        answer.destroy();
      }
    },
  };
}

/**
 * Sends a request on a connection of its own. With Node's own client: undici 7 ends the process if a source closes its connection before
 * the body is read (nodejs/undici#5360), and 8 needs Node 22.
 */
function answerOf(
  socket: Socket,
  url: SourceUrl,
  resume: Resumption | null,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asking = request({
      createConnection: () => socket,
      ...{ path: `${url.pathname}${url.search}`, method: 'GET', setHost: false },
      headers: {
        host: url.host,
        connection: 'close',
        accept: '*/*',
        // Without content encoding: the bytes of the file are stored, and their number must be known.
        'accept-encoding': 'identity',
        'user-agent': USER_AGENT,
        ...(resume ? { range: `bytes=${resume.bytes}-`, 'if-range': resume.validator } : {}),
      },
    });
    const giveUp = () => asking.destroy(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    asking.once('close', () => signal.removeEventListener('abort', giveUp));
    asking.on('error', reject);
    asking.once('response', (answer) => {
      // A body that breaks while nobody reads it must not end the process.
      answer.on('error', () => undefined);
      resolve(answer);
    });
    asking.end();
  });
}

/** A lookup cannot be aborted: after an abort it is not awaited, and a late connection is closed. */
async function unlessAborted(connecting: Promise<Socket>, signal: AbortSignal): Promise<Socket> {
  let giveUp: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(signal.reason);
    signal.addEventListener('abort', giveUp, { once: true });
  });
  try {
    // After an abort, nobody listens any more.
    signal.throwIfAborted();
    return await Promise.race([connecting, aborted]);
  } catch (error) {
    connecting.then(
      (socket) => socket.destroy(),
      () => undefined,
    );
    throw error;
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}

/** Whether an answer continues at our position in the same file. */
function continues({ statusCode, headersDistinct: headers }: IncomingMessage, resume: Resumption): boolean {
  const range = statusCode === 206 ? contentRangeOf(single(headers, 'content-range')) : null;
  if (range === null || range.from !== resume.bytes) return false;
  const tag = single(headers, 'etag');
  const isSameTag = tag === undefined || !resume.validator.startsWith('"') || tag === resume.validator;
  return isSameTag && (resume.totalBytes === null || range.totalBytes === resume.totalBytes);
}

function rest(answer: IncomingMessage, resume: Resumption, signal: AbortSignal): SourceAnswer {
  const { headersDistinct: headers } = answer;
  refuseEncoded(headers);
  const range = contentRangeOf(single(headers, 'content-range'));
  return {
    from: resume.bytes,
    totalBytes: range?.totalBytes ?? null,
    validator: resume.validator,
    body: piecesOf(answer, signal),
  };
}

function whole(answer: IncomingMessage, signal: AbortSignal): SourceAnswer {
  const { statusCode = 0, headersDistinct: headers } = answer;
  if (statusCode !== 200) {
    const isPassing = PASSING.has(statusCode);
    throw new SourceError(
      'source_refused',
      `The source answered with status ${statusCode}${isPassing ? '' : ' instead of the file'}.`,
      { retryable: isPassing, retryAfterMs: parseRetryAfterMs(single(headers, 'retry-after'), Date.now()) },
    );
  }
  refuseEncoded(headers);
  return {
    from: 0,
    totalBytes: contentLengthOf(single(headers, 'content-length')),
    validator: validatorOf(answer.headers),
    body: piecesOf(answer, signal),
  };
}

function refuseEncoded(headers: Fields): void {
  const encoding = single(headers, 'content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') return;
  throw new SourceError(
    'source_refused',
    'The source sent the file in a Content-Encoding although it was asked not to. It has to serve the file as it is.',
  );
}

/** A field that came more than once, or not at all, is unreliable. */
function single(headers: Fields, name: string): string | undefined {
  const [value, another] = headers[name] ?? [];
  return another === undefined ? value : undefined;
}

async function* piecesOf(body: IncomingMessage, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of body) yield piece as Uint8Array;
  } catch (error) {
    signal.throwIfAborted();
    throw new SourceError('source_incomplete', 'The connection to the source ended before the file did.', {
      retryable: true,
      cause: error,
    });
  }
}

function tookTooLong(ms: number): SourceError {
  return new SourceError('source_timeout', `The source did not begin its answer within ${ms / 1000} seconds.`, {
    retryable: true,
  });
}
