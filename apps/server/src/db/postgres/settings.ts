import type { ClientConfig } from 'pg';
import { DatabaseRefusedError } from '../database-refused-error.ts';

/** How long a call waits for a connection, or for a lock that another one holds; as SQLite's does. In milliseconds. */
export const PATIENCE_MS = 10_000;
/** No statement of ours takes as long. Past it, the server is told to give it up, and a little later it is held for gone. */
const STATEMENT_MS = 30_000;
/** A process that stands still in the middle of a transaction keeps its locks from everybody else no longer than this. */
const IDLE_IN_TRANSACTION_MS = 10_000;

/** What a URL may say after its question mark; one that says it wrongly would connect without TLS, for instance, and nobody would know. */
const PARAMETERS: ReadonlySet<string> = new Set([
  ...['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation', 'uselibpqcompat'],
  ...['schema', 'options', 'host', 'port', 'client_encoding'],
]);

/** What the server calls connections of a service whose tables are in that schema; names there have 63 bytes at most. */
export const serviceName = (schema: string): string => (schema === 'public' ? 'mds' : `mds ${schema}`.slice(0, 63));

/**
 * What it calls the connection of a service that finds out whose database it is, and has begun on nothing: where it waits for the tables of
 * a move, it sees what was moved.
 */
export const OPENING_NAME = 'mds-opening';

/** Where the database is, as its URL says. */
export interface DatabaseSettings {
  /** For every connection; holds the password. */
  connection: ClientConfig;
  /** The schema that the tables are in. */
  schema: string;
  /** What it is called in messages: host, port and database, and no password. */
  shown: string;
}

/**
 * Reads the URL of a database: `postgres://user:password@host:port/database`, with libpq's `sslmode`, and `schema` where the tables
 * are to be elsewhere than in `public`.
 * @throws DatabaseRefusedError which does not repeat the URL, as that holds a password
 */
export function databaseSettings(databaseUrl: string): DatabaseSettings {
  let url: URL;
  try {
    url = new URL(databaseUrl);
  } catch {
    // Without the cause: it holds the URL.
    throw new DatabaseRefusedError('MDS_DATABASE_URL is no URL. It looks like postgres://user:password@host/database.');
  }
  // What is taken for the name of the database, or for a parameter, is a part of the password then, and must not be shown.
  if (/@/.test(url.pathname + url.search + url.hash) || url.pathname.slice(1).includes('/')) {
    throw new DatabaseRefusedError(
      'MDS_DATABASE_URL cannot be read. In its user and password, special characters are written as %40 for @, %2F for /, %3A for :, %3F for ? and %23 for #.',
    );
  }
  if (!['postgres:', 'postgresql:'].includes(url.protocol)) {
    throw new DatabaseRefusedError('MDS_DATABASE_URL is of no kind that is known. It begins with postgres://');
  }
  const unknown = [...url.searchParams.keys()].filter((name) => !PARAMETERS.has(name));
  if (unknown.length > 0) {
    throw new DatabaseRefusedError(
      `MDS_DATABASE_URL has parameters that nothing heeds: ${unknown.join(', ')}. Known are ${[...PARAMETERS].join(', ')}.`,
    );
  }
  const schema = url.searchParams.get('schema') ?? 'public';
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
    throw new DatabaseRefusedError(
      'The schema that MDS_DATABASE_URL names is none: it consists of small letters, digits and underscores.',
    );
  }
  const options = [url.searchParams.get('options') ?? '', `-c search_path=${schema}`].join(' ').trim();
  for (const name of ['schema', 'options']) url.searchParams.delete(name);
  const host = url.hostname || (url.searchParams.get('host') ?? 'localhost');
  return {
    schema,
    shown: `${host}${url.port && `:${url.port}`}${url.pathname}`,
    connection: {
      connectionString: url.href,
      application_name: serviceName(schema),
      options,
      connectionTimeoutMillis: PATIENCE_MS,
      lock_timeout: PATIENCE_MS,
      statement_timeout: STATEMENT_MS,
      query_timeout: STATEMENT_MS + 5_000,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
      keepAlive: true,
    },
  };
}
