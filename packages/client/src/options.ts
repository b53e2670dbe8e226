import { ConfigurationError } from './errors.ts';

/** The part of `fetch` that is used. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** How to reach the service. */
export interface ClientOptions {
  /** Base address of the service: `https://media.example.com`, with a path where a proxy adds one. */
  baseUrl: string | URL;
  /**
   * Operator token. Sent to the control API and nowhere else: the read API and delivery are public, and an answer to a
   * request with a token would not be cached on its way.
   */
  token?: string | undefined;
  /** Instead of the runtime's own `fetch`. */
  fetch?: Fetch | undefined;
  /**
   * Milliseconds that one attempt may take; default 30,000; 0 waits for ever. For JSON: until the whole answer is there.
   * For `get` and `download`: until the headers are there, then the body may take its time. For an upload: since the
   * last piece of the body went out, so that a long one lives as long as it moves.
   */
  timeoutMs?: number | undefined;
  /** How often a request that may be repeated is, after the first attempt; default 2. */
  maxRetries?: number | undefined;
  /**
   * Asked before an attempt that would be made by {@link ClientOptions.maxRetries}; false has the error thrown at once. For errors
   * that waiting is no answer to in this program, such as `deployment_moved` for a person at a terminal.
   */
  shouldRetry?: ((error: unknown) => boolean) | undefined;
  /** User-Agent to send. None by default: in browsers it would make every read ask for permission first (CORS preflight). */
  userAgent?: string | undefined;
}

/** {@link ClientOptions} with every default in place, checked. */
export interface Settings {
  /** Without a slash at its end. */
  baseUrl: string;
  token: string | null;
  fetch: Fetch;
  timeoutMs: number;
  maxRetries: number;
  shouldRetry: (error: unknown) => boolean;
  userAgent: string | null;
}

/**
 * Checks options and fills in the defaults.
 * @throws ConfigurationError naming the option; never quoting the token
 */
export function settingsOf(options: ClientOptions): Settings {
  return {
    baseUrl: baseUrlOf(options.baseUrl),
    token: tokenOf(options.token),
    fetch: options.fetch ?? ((url, init) => globalThis.fetch(url, init)),
    timeoutMs: wholeNumber('timeoutMs', options.timeoutMs ?? 30_000),
    maxRetries: wholeNumber('maxRetries', options.maxRetries ?? 2),
    shouldRetry: options.shouldRetry ?? (() => true),
    userAgent: options.userAgent ?? null,
  };
}

function baseUrlOf(value: string | URL): string {
  if (!URL.canParse(String(value))) {
    throw new ConfigurationError(
      `baseUrl ${JSON.stringify(String(value))} is not an address; it should be like http://127.0.0.1:8080`,
    );
  }
  const url = new URL(value);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new ConfigurationError(`baseUrl has to begin with http:// or https://, not ${url.protocol}`);
  }
  if (url.username || url.password) {
    throw new ConfigurationError('baseUrl must not hold a user name or a password; give the token as `token`');
  }
  if (url.search || url.hash) throw new ConfigurationError('baseUrl must not have a query or a fragment');
  return (url.origin + url.pathname).replace(/\/+$/, '');
}

function tokenOf(value: string | undefined): string | null {
  if (value === undefined) return null;
  // Visible ASCII. A line break would otherwise surface in the message of fetch itself, token and all.
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw new ConfigurationError('token is not a bearer token: it is empty or has a character that none may have');
  }
  return value;
}

function wholeNumber(name: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new ConfigurationError(`${name} has to be a whole number from 0 up`);
  return value;
}
