import type { Client } from '@mds/client';
import type { Io, OutputStream } from './io.ts';
import { type Colours, coloursFor } from './output/colours.ts';
import { jsonText } from './output/json.ts';
import { printableLine } from './output/printable.ts';
import { type Column, tableLines, tabSeparated } from './output/table.ts';
import { findToken, requireToken, type TokenSearch } from './token.ts';

/** Options that every command understands. */
export interface GlobalOptions {
  url: string | undefined;
  token: string | undefined;
  json: boolean | undefined;
  quiet: boolean | undefined;
}

/** The default address of the service. */
export const DEFAULT_URL = 'http://127.0.0.1:8080';

/** Records to print in the current output format. */
export interface Listing<T> {
  rows: readonly T[];
  columns: readonly Column<T>[];
  /** The service's own answer, which `--json` prints. */
  json: unknown;
  /** Printed on a terminal if there are no rows. */
  empty: string;
}

/** The input, output and settings of a command. */
export interface Context {
  readonly io: Io;
  /** Address of the service. */
  readonly url: string;
  readonly json: boolean;
  readonly quiet: boolean;
  /** Standard error if it may show progress; null if it must hold errors only. */
  readonly progress: OutputStream | null;
  /** Columns that a line of standard output may take. */
  readonly width: number;
  /** Whether standard output is a terminal. */
  readonly interactive: boolean;
  /** Colours for standard output and standard error. */
  readonly colours: Colours;
  readonly errorColours: Colours;
  /** Writes a line of data to standard output. */
  print(line: string): void;
  /** Writes JSON to standard output. */
  printJson(value: unknown): void;
  /** A table on a terminal, tab-separated lines elsewhere, JSON with `--json`. */
  list<T>(listing: Listing<T>): void;
  /** Writes a message to standard error, unless `--quiet` or `--json` is given. */
  note(line: string): void;
  /** Reports a problem while the program continues; with `--json` as an error without an exit code. */
  warn(line: string): void;
  /** The client for public resources, without a token. */
  client(): Promise<Client>;
  /** The client with a token. @throws CliError with the searched places if there is no token */
  operator(): Promise<Client>;
  /** The token, and where it was found or searched. */
  token(): Promise<TokenSearch>;
}

/** Makes a {@link Context}. Nothing is read or loaded before it is needed. */
export function createContext(io: Io, options: GlobalOptions): Context {
  const url = serviceUrl(options.url, io.env);
  const json = options.json === true;
  const quiet = options.quiet === true;
  const interactive = io.stdout.isTTY === true;
  const width = io.stdout.columns || 80;
  const colours = coloursFor(io.stdout, io.env);
  const errorColours = coloursFor(io.stderr, io.env);
  let search: Promise<TokenSearch> | undefined;
  const token = () => {
    search ??= findToken(io, options.token);
    return search;
  };
  const print = (line: string) => {
    io.stdout.write(`${interactive ? printableLine(line) : line}\n`);
  };
  const connect = async (bearer: string | undefined) => {
    // Loaded on demand: `mds --help` needs no client.
    const { createClient, isApiError } = await import('@mds/client');
    // Programs wait until their calls reach the new service. A command reports the move at once.
    const shouldRetry = (error: unknown) => !(isApiError(error) && error.code === 'deployment_moved');
    return createClient({ baseUrl: url, token: bearer, userAgent: 'mds-cli', shouldRetry });
  };

  return {
    io,
    url,
    json,
    quiet,
    progress: quiet || json ? null : io.stderr,
    width,
    interactive,
    colours,
    errorColours,
    print,
    printJson(value) {
      io.stdout.write(`${jsonText(value)}\n`);
    },
    list({ rows, columns, json: value, empty }) {
      if (json) io.stdout.write(`${jsonText(value)}\n`);
      else if (!interactive) for (const line of tabSeparated(columns, rows)) print(line);
      else if (rows.length === 0) this.note(empty);
      else for (const line of tableLines(columns, rows, width, colours.bold)) print(line);
    },
    note(line) {
      if (!quiet && !json) io.stderr.write(`${printableLine(line)}\n`);
    },
    warn(line) {
      if (json)
        io.stderr.write(`${jsonText({ error: { message: line, hints: [], exit_code: null, problem: null } }, 0)}\n`);
      else this.note(errorColours.yellow(line));
    },
    client: () => connect(undefined),
    operator: async () => connect(requireToken(await token())),
    token,
  };
}

/** The address that the user gave, else that of a service on this machine with the port in `MDS_PORT`. */
function serviceUrl(given: string | undefined, env: Io['env']): string {
  const port = env['MDS_PORT'] ?? '';
  const local = /^[1-9]\d*$/.test(port) ? `http://127.0.0.1:${port}` : DEFAULT_URL;
  const url = given ?? (env['MDS_URL'] || local);
  // On this machine, it can only be http.
  return /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?(\/.*)?$/i.test(url) ? `http://${url}` : url;
}
