import type { Client } from '@mds/client';
import type { Io, OutputStream } from './io.ts';
import { type Colours, coloursFor } from './output/colours.ts';
import { jsonText } from './output/json.ts';
import { printableLine } from './output/printable.ts';
import { type Column, tableLines, tabSeparated } from './output/table.ts';
import { findToken, requireToken, type TokenSearch } from './token.ts';

/** What every command understands. */
export interface GlobalOptions {
  url: string | undefined;
  token: string | undefined;
  json: boolean | undefined;
  quiet: boolean | undefined;
}

/** Where the service listens unless told otherwise. */
export const DEFAULT_URL = 'http://127.0.0.1:8080';

/** Records to show, in whichever way the output wants them. */
export interface Listing<T> {
  rows: readonly T[];
  columns: readonly Column<T>[];
  /** What `--json` prints: the service's own answer. */
  json: unknown;
  /** What people are told when there are no rows. */
  empty: string;
}

/** What a command works with. */
export interface Context {
  readonly io: Io;
  /** Address of the service, as the user gave it. */
  readonly url: string;
  readonly json: boolean;
  readonly quiet: boolean;
  /** Standard error, where it may show how far something is; null where it is to hold nothing but errors. */
  readonly progress: OutputStream | null;
  /** Columns that a line of standard output may take. */
  readonly width: number;
  /** Whether people read standard output. */
  readonly interactive: boolean;
  /** Colours of standard output, and of standard error. */
  readonly colours: Colours;
  readonly errorColours: Colours;
  /** Writes a line of data to standard output. */
  print(line: string): void;
  /** Writes JSON to standard output. */
  printJson(value: unknown): void;
  /** A table on a terminal, tab-separated lines elsewhere, JSON with `--json`. */
  list<T>(listing: Listing<T>): void;
  /** Says something to people, on standard error; with neither `--quiet` nor `--json`. */
  note(line: string): void;
  /** Says what goes wrong while the program goes on; with `--json` as an error without exit code. */
  warn(line: string): void;
  /** The client for what is public; has no token. */
  client(): Promise<Client>;
  /** The client with a token; a CliError that says where it was looked for if there is none. */
  operator(): Promise<Client>;
  /** Where the token was looked for and found. */
  token(): Promise<TokenSearch>;
}

/** Makes what a command works with. Nothing is read or loaded before it is asked for. */
export function createContext(io: Io, options: GlobalOptions): Context {
  const url = options.url ?? (io.env['MDS_URL'] || DEFAULT_URL);
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
    // Loaded here and not above: `mds --help` needs no client.
    const { createClient, isApiError } = await import('@mds/client');
    // Programs wait until their calls lead to the new service; who gave a command is told.
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
