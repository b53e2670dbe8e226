/** Address and credentials of a Redis. */
export interface RedisLocation {
  host: string;
  port: number;
  username?: string;
  password?: string;
  /** Database number. */
  db: number;
  tls: boolean;
  /** Its name in messages, without user and password. */
  shown: string;
}

const PORT = 6379;

/**
 * Reads `redis://user:password@host:port/database`. All but the host is optional, and `rediss://` uses TLS.
 * @throws RangeError that names the fault without repeating the URL, which may hold a password
 */
export function parseRedisUrl(text: string): RedisLocation {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !['redis:', 'rediss:'].includes(url.protocol) || url.hostname === '') {
    throw new RangeError('It has to be redis://user:password@host:6379/0, or rediss:// for TLS.');
  }
  // A query would set options of the client, which could break the guarantees for an outage.
  if (url.search !== '' || url.hash !== '') throw new RangeError('Nothing may follow the number of the database.');
  const db = /^\/?(\d{0,5})$/.exec(url.pathname)?.[1];
  if (db === undefined) throw new RangeError('After the host there may be the number of a database, as in /0.');
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = url.port === '' ? PORT : Number(url.port);
  const [username, password] = [url.username, url.password].map(decoded);
  return {
    ...{ host, port, db: Number(db), tls: url.protocol === 'rediss:' },
    ...(username ? { username } : {}),
    ...(password ? { password } : {}),
    shown: `${url.protocol}//${url.hostname}:${port}/${Number(db)}`,
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Without the cause, which may hold that part.
    throw new RangeError('In user and password, a % and what has a meaning in addresses is written as %25 and so on.');
  }
}
