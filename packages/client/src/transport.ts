import { errorOf, jsonOf } from './answer.ts';
import {
  ApiError,
  ConfigurationError,
  ConnectionError,
  MissingTokenError,
  type RequestLine,
  TimeoutError,
} from './errors.ts';
import type { Settings } from './options.ts';
import { retryDelayMs } from './retry.ts';
import type { AnswerOf, RequestOf, RouteLine } from './routes.ts';
import { sleep } from './sleep.ts';
import type { OpenBody, UploadSource } from './upload-source.ts';

/** Options of every request. */
export interface RequestOptions {
  /** Aborts the request, its retries and their pauses; the signal's reason is thrown. */
  signal?: AbortSignal | undefined;
}

/** Options of one request within the client. */
export interface SendOptions extends RequestOptions {
  /** Send the token, and fail without one. */
  authorize?: boolean;
  /** Whether it may be repeated after a failure. */
  repeatable?: boolean;
  /** Replaces the client's time limit of one attempt. A request that exceeds it is not repeated. */
  timeoutMs?: number | undefined;
  headers?: Record<string, string>;
  upload?: UploadSource;
}

/** Sends requests to one service: headers, time limits, retries, errors. */
export interface Transport {
  /** Base address of the service, without a trailing slash. */
  readonly baseUrl: string;
  /** Time limit of one attempt in milliseconds; 0: no limit. */
  readonly timeoutMs: number;
  /** Whether the caller wants another attempt after this error; see `ClientOptions.shouldRetry`. */
  shouldRetry(error: unknown): boolean;
  /**
   * The headers of every request to the control API.
   * @throws MissingTokenError if the client has no token
   */
  controlHeaders(): Record<string, string>;
  /** Sends a request to any address, once. Resolves with the response, its body unread; a status of 400 or above is thrown. */
  exchange(line: RequestLine, options: SendOptions): Promise<Response>;
  /**
   * Sends a request of the contract, with its types: `call('GET /control/v1/media/:id', { params: { id } })`. Requests to the
   * control API carry the token, and fail without one.
   */
  call<L extends RouteLine>(line: L, request: RequestOf<L>, options?: SendOptions): Promise<AnswerOf<L>>;
  /** As {@link Transport.call}; resolves with the body alone. */
  callJson<L extends RouteLine>(line: L, request: RequestOf<L>, options?: SendOptions): Promise<AnswerOf<L>['body']>;
  /** As {@link Transport.call}, for an answer that has no end: resolves with the response, its body unread. */
  open<L extends RouteLine>(line: L, request: RequestOf<L>, options?: SendOptions): Promise<Response>;
  /** Sends a GET to any address. Resolves with the response, its body unread; a status of 400 or above is thrown. */
  get(url: string, options: SendOptions): Promise<Response>;
  /** Sends a GET to any address and resolves with its JSON, whose shape the caller knows. */
  getJson(url: string, options: SendOptions): Promise<unknown>;
}

interface Outgoing extends RequestLine {
  options: SendOptions;
  /** The JSON body, if the request has one. */
  json?: string | undefined;
}

/** Makes the {@link Transport} of a client. */
export function createTransport(settings: Settings): Transport {
  const answerTo = (line: RouteLine, request: object, options: SendOptions = {}) => {
    const outgoing = outgoingOf(settings, line, request, options);
    return send(settings, outgoing, async (response) => {
      const { status, headers } = response;
      return { status, body: await jsonOf(outgoing, response), headers };
    });
  };
  return {
    baseUrl: settings.baseUrl,
    shouldRetry: settings.shouldRetry,
    timeoutMs: settings.timeoutMs,
    controlHeaders: () => headersOf(settings, { authorize: true }),
    exchange: (line, options) =>
      send(settings, { ...line, options: { ...options, repeatable: false } }, (response) => Promise.resolve(response)),
    // The contract promises these shapes; nothing validates them here, see routes.ts.
    call: async <L extends RouteLine>(line: L, request: RequestOf<L>, options?: SendOptions) =>
      (await answerTo(line, request, options)) as AnswerOf<L>,
    callJson: async <L extends RouteLine>(line: L, request: RequestOf<L>, options?: SendOptions) =>
      (await answerTo(line, request, options)).body as AnswerOf<L>['body'],
    open: (line, request, options = {}) =>
      send(settings, outgoingOf(settings, line, request, options), (response) => Promise.resolve(response)),
    get: (url, options) =>
      send(settings, { method: 'GET', url, options: { repeatable: true, ...options } }, (response) =>
        Promise.resolve(response),
      ),
    getJson: (url, options) => {
      const line = { method: 'GET', url };
      return send(settings, { ...line, options: { repeatable: true, ...options } }, (response) =>
        jsonOf(line, response),
      );
    },
  };
}

function outgoingOf(settings: Settings, line: RouteLine, request: object, options: SendOptions): Outgoing {
  const [method = '', path = ''] = line.split(' ');
  const { params, query, headers, body } = request as {
    params?: Parameters;
    query?: Parameters;
    headers?: Parameters;
    body?: unknown;
  };
  return {
    method,
    url: settings.baseUrl + fillPath(path, params) + queryString(query),
    options: {
      // PUT and DELETE are idempotent (RFC 9110, 9.2.2); POST is repeated only at the caller's request.
      repeatable: method !== 'POST' && method !== 'PATCH',
      authorize: path.startsWith('/control/'),
      ...options,
      headers: {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...definedOnly(headers),
        ...options.headers,
      },
    },
    json: body === undefined ? undefined : JSON.stringify(body),
  };
}

type Parameters = Record<string, string | number | undefined>;

async function send<T>(settings: Settings, outgoing: Outgoing, read: (response: Response) => Promise<T>): Promise<T> {
  const { repeatable, signal, upload } = outgoing.options;
  const maxAttempts = 1 + (repeatable && (upload?.replayable ?? true) ? settings.maxRetries : 0);
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOnce(settings, outgoing, read);
    } catch (error) {
      if (error instanceof ApiError) error.attempts = attempt;
      const exceededOwnLimit = error instanceof TimeoutError && outgoing.options.timeoutMs !== undefined;
      const delayMs = attempt < maxAttempts && !exceededOwnLimit ? retryDelayMs(error, attempt) : null;
      if (delayMs === null || !settings.shouldRetry(error)) throw error;
      await sleep(delayMs, signal);
    }
  }
}

async function attemptOnce<T>(
  settings: Settings,
  outgoing: Outgoing,
  read: (response: Response) => Promise<T>,
): Promise<T> {
  const { method, url, options, json } = outgoing;
  const headers = headersOf(settings, options);
  options.signal?.throwIfAborted();

  const timeoutMs = options.timeoutMs ?? settings.timeoutMs;
  const clock = startClock(timeoutMs, () => timeoutOf(outgoing, timeoutMs));
  const signal = options.signal ? AbortSignal.any([options.signal, clock.signal]) : clock.signal;
  let body: OpenBody | undefined;
  try {
    body = options.upload?.open(clock.restart);
    if (body?.unobserved) clock.stop();
    const content = json === undefined ? body?.init : { body: json };
    const response = await settings.fetch(url, { method, headers, signal, ...content });
    if (!response.ok && response.status !== 304) throw await errorOf(outgoing, response);
    return await read(response);
  } catch (error) {
    if (options.signal?.aborted) throw options.signal.reason;
    if (clock.signal.aborted) throw clock.signal.reason;
    if (error instanceof ApiError) throw error;
    const failure = body?.failure();
    if (failure) throw failure;
    throw connectionErrorOf(outgoing, error);
  } finally {
    clock.stop();
    body?.close();
  }
}

function headersOf(settings: Settings, options: SendOptions): Record<string, string> {
  const headers = { ...options.headers };
  if (settings.userAgent !== null) headers['user-agent'] = settings.userAgent;
  if (options.authorize) {
    if (settings.token === null) {
      throw new MissingTokenError('the control API needs a token: createClient({ baseUrl, token })');
    }
    headers['authorization'] = `Bearer ${settings.token}`;
  }
  return headers;
}

/** A time limit that can be restarted. */
function startClock(timeoutMs: number, reason: () => TimeoutError) {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = timeoutMs === 0;
  const start = () => {
    if (!stopped) timer = setTimeout(() => controller.abort(reason()), timeoutMs);
  };
  start();
  return {
    signal: controller.signal,
    restart() {
      clearTimeout(timer);
      start();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

function timeoutOf({ method, url, options }: Outgoing, timeoutMs: number): TimeoutError {
  const what = options.upload ? 'neither took more of the body nor answered' : 'gave no answer';
  return new TimeoutError(`${method} ${url} ${what} within ${timeoutMs} ms`, timeoutMs);
}

/** Time limit of Node's fetch for the headers of an answer; callers cannot extend it. */
const NODE_HEADERS_TIMEOUT_MS = 300_000;

/** Makes the error of a rejected fetch or of a body that broke off. */
export function connectionErrorOf(line: RequestLine, error: unknown): ConnectionError | TimeoutError {
  // The message of fetch is "fetch failed". The reason is in `cause`, as a list if the name has several addresses.
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const root = cause instanceof AggregateError ? (cause.errors[0] as unknown) : cause;
  const code =
    typeof root === 'object' && root !== null && 'code' in root && typeof root.code === 'string' ? root.code : null;
  if (code === 'UND_ERR_HEADERS_TIMEOUT') {
    const limit = `${NODE_HEADERS_TIMEOUT_MS} ms, the most that this runtime's fetch waits; give the client another as \`fetch\``;
    return new TimeoutError(`${line.method} ${line.url} gave no answer within ${limit}`, NODE_HEADERS_TIMEOUT_MS);
  }
  const reason = root instanceof Error && root.message ? root.message : String(root);
  return new ConnectionError({ method: line.method, url: line.url }, reason, code, error);
}

function fillPath(path: string, params: Parameters = {}): string {
  return path.replace(/:([a-z]+)/g, (_, name: string) => {
    const value = params[name];
    // "." and ".." would be resolved and change the path; percent-encoding does not protect them.
    if (value === undefined || /^\.{0,2}$/.test(String(value))) {
      throw new ConfigurationError(`${JSON.stringify(value ?? '')} cannot stand for ${name} in ${path}`);
    }
    return encodeURIComponent(value);
  });
}

function queryString(query: Parameters = {}): string {
  const search = new URLSearchParams(definedOnly(query)).toString();
  return search && `?${search}`;
}

function definedOnly(values: Parameters = {}): Record<string, string> {
  const defined: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) if (value !== undefined) defined[name] = String(value);
  return defined;
}
