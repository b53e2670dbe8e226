import type { HttpRequest, HttpResponse, HttpStack } from 'tus-js-client';
import { errorOf } from '../answer.ts';
import { ConnectionError, MdsError, type RequestLine, TimeoutError } from '../errors.ts';
import type { Transport } from '../transport.ts';
import { PROBLEM_CODE } from '../upload-protocol.ts';
import { uploadSource } from '../upload-source.ts';
import type { Piece } from './content-reader.ts';

/** Parts of the requests of tus. */
export interface StackParts {
  transport: Transport;
  /** Address of uploads. Nothing is sent to any other address, so the token is not either. */
  endpoint: string;
}

/** Sends the requests of tus like all others of this client: with `fetch`, its time limits and its errors. */
export function createFetchStack({ transport, endpoint }: StackParts): HttpStack {
  return {
    getName: () => 'fetch',
    createRequest(method, url) {
      const headers: Record<string, string> = { accept: 'application/json', ...transport.controlHeaders() };
      const stop = new AbortController();
      let onSent: (bytes: number) => void = () => undefined;
      return {
        ...lineOf(method, url),
        setHeader(name, value) {
          headers[name.toLowerCase()] = value;
        },
        getHeader: (name) => headers[name.toLowerCase()],
        setProgressHandler(handler) {
          onSent = handler;
        },
        async send(body: Piece | null) {
          const line = checkedLine(endpoint, method, url);
          const upload = body ? await uploadSource(body, body.size, ({ sentBytes }) => onSent(sentBytes)) : undefined;
          if (body) headers['content-length'] = String(body.size);
          const response = await transport.exchange(line, { headers, signal: stop.signal, ...(upload && { upload }) });
          const text = await response.text();
          return {
            getStatus: () => response.status,
            // tus types this as a string, but treats null as missing.
            getHeader: (name) => response.headers.get(name) as string,
            getBody: () => text,
            getUnderlyingObject: () => response,
          };
        },
        async abort() {
          stop.abort();
        },
        getUnderlyingObject: () => null,
      };
    },
  };
}

/**
 * Sends them with the XMLHttpRequest of tus-js-client: in browsers, `fetch` reports no progress and sends no body that is not in memory.
 * Keeps the time limits and errors of this client.
 */
export function createBrowserStack(browser: HttpStack, { transport, endpoint }: StackParts): HttpStack {
  return {
    getName: () => browser.getName(),
    createRequest(method, url) {
      const request = browser.createRequest(method, url);
      const clock = startIdleClock(transport.timeoutMs);
      for (const [name, value] of Object.entries(transport.controlHeaders())) request.setHeader(name, value);
      return {
        ...lineOf(method, url),
        setHeader: (name, value) => request.setHeader(name, value),
        getHeader: (name) => request.getHeader(name),
        setProgressHandler(handler) {
          request.setProgressHandler((bytes) => {
            clock.restart();
            handler(bytes);
          });
        },
        async send(body: Piece | null) {
          return sendWatched(request, checkedLine(endpoint, method, url), body, clock, transport.timeoutMs);
        },
        async abort() {
          clock.stop();
          await request.abort();
        },
        getUnderlyingObject: () => request.getUnderlyingObject() as unknown,
      };
    },
  };
}

async function sendWatched(
  request: HttpRequest,
  line: RequestLine,
  body: Piece | null,
  clock: IdleClock,
  timeoutMs: number,
): Promise<HttpResponse> {
  const sent = request.send(body).catch((error: unknown) => {
    // Browsers hide the reason from pages.
    throw new ConnectionError(line, 'the connection broke, or the service does not let this page upload', null, error);
  });
  const late = clock.expired.then(async (): Promise<never> => {
    await request.abort();
    const what = body ? 'neither took more of the body nor answered' : 'gave no answer';
    throw new TimeoutError(`${line.method} ${line.url} ${what} within ${timeoutMs} ms`, timeoutMs);
  });
  clock.restart();
  try {
    const response = await Promise.race([sent, late]);
    if (response.getStatus() >= 400) throw await errorOf(line, responseOf(response));
    return response;
  } finally {
    clock.stop();
  }
}

/** The same answer as a Response of the fetch API. */
function responseOf(response: HttpResponse): Response {
  const headers = new Headers();
  for (const name of ['content-type', 'x-request-id', 'retry-after', PROBLEM_CODE]) {
    // Null if the answer has no such header, or if the page may not read it.
    const value = response.getHeader(name) as string | null;
    if (value !== null) headers.set(name, value);
  }
  return new Response(response.getBody(), { status: response.getStatus(), headers });
}

interface IdleClock {
  /** Resolves if the clock is not restarted within its time. */
  expired: Promise<void>;
  restart(): void;
  stop(): void;
}

function startIdleClock(timeoutMs: number): IdleClock {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let expire: () => void = () => undefined;
  const expired = new Promise<void>((resolve) => {
    expire = resolve;
  });
  const stop = () => clearTimeout(timer);
  return {
    expired,
    restart() {
      stop();
      if (timeoutMs !== 0) timer = setTimeout(expire, timeoutMs);
    },
    stop,
  };
}

function checkedLine(endpoint: string, method: string, url: string): RequestLine {
  if (url !== endpoint && !url.startsWith(`${endpoint}/`)) {
    throw new MdsError(`${method} ${url} is refused: it is not an upload at ${endpoint}, and would get the token`);
  }
  return { method, url };
}

function lineOf(method: string, url: string): Pick<HttpRequest, 'getMethod' | 'getURL'> {
  return { getMethod: () => method, getURL: () => url };
}
