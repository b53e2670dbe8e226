import { ConfigurationError } from './errors.ts';

/** The used part of `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Options of a client. */
export interface ClientOptions {
  /** Base address of the service: `https://media.example.com`, with a path if a proxy adds one. */
  baseUrl: string | URL;
  /**
   * Operator token. Sent only to the control API: the read API and delivery are public, and caches do not store answers to requests with
   * a token.
   */
  token?: string | undefined;
  /** Replaces the runtime's `fetch`. */
  fetch?: Fetch | undefined;
  /**
   * Time limit of one attempt in milliseconds; default 30,000; 0: no limit. For JSON: until the whole answer has arrived. For `get` and
   * `download`: until the headers have arrived; the body has no limit. For an upload: since the last piece of the body was sent, so a long
   * upload continues as long as it makes progress.
   */
  timeoutMs?: number | undefined;
  /** Maximum retries of a repeatable request; default 2. */
  maxRetries?: number | undefined;
  /**
   * Called before each retry; false throws the error at once. For errors that waiting does not solve, such as `deployment_moved` in an
   * interactive program.
   */
  shouldRetry?: ((error: unknown) => boolean) | undefined;
  /** User-Agent to send. None by default: in browsers it would cause a CORS preflight before every read. */
  userAgent?: string | undefined;
}

/** Checked {@link ClientOptions} with all defaults. */
export interface Settings {
  /** Without a trailing slash. */
  baseUrl: string;
  token: string | null;
  fetch: Fetch;
  timeoutMs: number;
  maxRetries: number;
  shouldRetry: (error: unknown) => boolean;
  userAgent: string | null;
}

/**
 * Checks the options and adds the defaults.
 * @throws ConfigurationError that names the option and never contains the token
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
  // Visible ASCII. With a line break, the error message of fetch would contain the token.
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw new ConfigurationError('token is not a bearer token: it is empty or has an invalid character');
  }
  return value;
}

function wholeNumber(name: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new ConfigurationError(`${name} has to be a whole number from 0 up`);
  return value;
}
