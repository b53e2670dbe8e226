import { SourceError } from './source-error.ts';

/** A URL that is permitted by itself; the addresses of its host are checked when it is connected to. */
export type SourceUrl = URL & { readonly sourceUrl: unique symbol };

/** Below this, only the ports of HTTP itself: others belong to mail servers, consoles and the like. */
const FIRST_UNPRIVILEGED_PORT = 1024;

/**
 * Reads the URL of a source.
 * @param base of a relative URL in a redirect
 * @throws SourceError `source_not_allowed` that names the broken rule
 */
export function sourceUrlOf(text: string, base?: URL): SourceUrl {
  let url: URL;
  try {
    url = new URL(text, base);
  } catch {
    // The parser's own error holds the whole text.
    throw refused('is not a URL: it must begin with http:// or https:// and a host');
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw refused(`has the scheme ${url.protocol.slice(0, 32)} and only http: and https: are fetched from`);
  }
  if (url.username !== '' || url.password !== '') {
    throw refused('holds a user name or a password, which are not accepted in URLs');
  }
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  if (port !== 80 && port !== 443 && port < FIRST_UNPRIVILEGED_PORT) {
    throw refused(`has the port ${port}; only 80, 443 and those from ${FIRST_UNPRIVILEGED_PORT} up are fetched from`);
  }
  return url as SourceUrl;
}

function refused(why: string): SourceError {
  return new SourceError('source_not_allowed', `The URL of the source ${why}.`);
}
