import type { ClientConfig } from 'pg';
import { DatabaseRefusedError } from '../database-refused-error.ts';

/** How long a call waits for a connection, or for a lock of another, as with SQLite; in milliseconds. */
export const WAIT_MS = 10_000;
/** None of our statements takes as long. After it the server cancels the statement, and a little later the server counts as gone. */
const STATEMENT_MS = 30_000;
/** How long a process that hangs during a transaction keeps its locks. */
const IDLE_IN_TRANSACTION_MS = 10_000;

/** The parameters that a URL may have. With a misspelled one, the service might connect without TLS unnoticed. */
const PARAMETERS: ReadonlySet<string> = new Set([
  ...['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation', 'uselibpqcompat'],
  ...['schema', 'options', 'host', 'port', 'client_encoding'],
]);

/** The application name of a service whose tables are in that schema. PostgreSQL cuts it off after 63 bytes. */
export const serviceName = (schema: string): string => (schema === 'public' ? 'mds' : `mds ${schema}`.slice(0, 63));

/**
 * The application name of a service that is opening the database and has done nothing yet. If it waits for the tables during a move, it
 * sees the moved rows.
 */
export const OPENING_NAME = 'mds-opening';

/** The database that a URL names. */
export interface DatabaseSettings {
  /** For every connection. Contains the password. */
  connection: ClientConfig;
  /** The schema that the tables are in. */
  schema: string;
  /** The database's name in messages: host, port and database, without the password. */
  shown: string;
}

/**
 * Reads the URL of a database: `postgres://user:password@host:port/database`, with libpq's `sslmode`, and `schema` if the tables are not
 * in `public`.
 * @throws DatabaseRefusedError which does not repeat the URL, because that contains a password
 */
export function databaseSettings(databaseUrl: string): DatabaseSettings {
  let url: URL;
  try {
    url = new URL(databaseUrl);
  } catch {
    // Without the cause, which contains the URL.
    throw new DatabaseRefusedError('MDS_DATABASE_URL is no URL. It looks like postgres://user:password@host/database.');
  }
  // Then a part of the password is taken for the name of the database or a parameter, and must not be shown.
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
      connectionTimeoutMillis: WAIT_MS,
      lock_timeout: WAIT_MS,
      statement_timeout: STATEMENT_MS,
      query_timeout: STATEMENT_MS + 5_000,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
      keepAlive: true,
    },
  };
}
