import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, isApiError, isConflictError, isNotFoundError, type Migration } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT, ReportedError, StoppedError } from '../exit-codes.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { counted, humanBytes, humanTiming } from '../output/quantities.ts';
import { createMoveDisplay, PHASES } from './move-display.ts';

/** The options of `mds migrate-to`, parsed. */
export interface MigrateToArguments {
  database?: string;
  storage?: string;
  s3Endpoint?: string;
  status?: boolean;
  cancel?: boolean;
}

/** Time between two requests for the progress. */
const POLL_MS = 500;

/**
 * Has the service move its data, shows the progress, and prints the result.
 * @throws ReportedError if the move failed or was canceled
 */
export async function migrateTo(context: Context, options: MigrateToArguments): Promise<void> {
  const client = await context.operator();
  const { migrations } = client.control;
  const { signal } = context.io;
  if (options.status) return printMigration(context, await migrations.current({ signal }).catch(explainNoneStarted));
  if (options.cancel) {
    const canceled = await migrations.cancel({ signal }).catch(explainNoneStarted);
    if (context.json) context.printJson(canceled);
    else context.note('Canceled. The service accepts writes again.');
    return;
  }
  printMigration(context, await follow(context, client, await start(context, client, options)));
}

async function start(context: Context, client: Client, options: MigrateToArguments): Promise<Migration> {
  const database = options.database ?? context.io.env['MDS_TARGET_DATABASE_URL'];
  const { storage, s3Endpoint } = options;
  if (!database || storage === undefined) {
    throw new CliError('A destination is needed: --database (or MDS_TARGET_DATABASE_URL) and --storage.', {
      exitCode: EXIT.usage,
      hints: ['mds migrate-to --help'],
    });
  }
  const { signal } = context.io;
  try {
    return await client.control.migrations.begin(
      { database_url: database, storage_url: storage, s3_endpoint: s3Endpoint },
      { signal },
    );
  } catch (error) {
    if (!isConflictError(error)) throw withOptions(error);
    // This command may have started the move earlier: it was interrupted, or the answer was lost.
    const current = await client.control.migrations.current({ signal }).catch(() => null);
    if (current === null || !hasDestination(current, { database, storage, s3Endpoint })) throw error;
    if (current.state !== 'running' && current.state !== 'done') throw error;
    if (current.state === 'running') context.note('The move is already running.');
    return current;
  }
}

/** Whether a move has the wanted destination, as far as the service reports it. */
function hasDestination(
  { destination, settings }: Migration,
  { database, storage, s3Endpoint }: { database: string; storage: string; s3Endpoint: string | undefined },
): boolean {
  const endpoint = settings?.['MDS_S3_ENDPOINT'];
  const isElsewhere = s3Endpoint !== undefined && settings !== null && addressOf(s3Endpoint) !== addressOf(endpoint);
  return destination.storage === storage && destination.database === shownDatabase(database) && !isElsewhere;
}

/** Host, port and database of a URL, as the service shows them; null if it is not a URL. */
function shownDatabase(url: string): string | null {
  if (!URL.canParse(url)) return null;
  const { hostname, port, pathname, searchParams } = new URL(url);
  return `${hostname || (searchParams.get('host') ?? 'localhost')}${port && `:${port}`}${pathname}`;
}

function addressOf(endpoint: string | undefined): string | null {
  if (endpoint === undefined || !URL.canParse(endpoint)) return null;
  const { origin, pathname } = new URL(endpoint);
  return origin + pathname;
}

/** @throws the error; if no move was started, with the command that starts one */
function explainNoneStarted(error: unknown): never {
  throw isNotFoundError(error)
    ? new StoppedError(error, ['Start a move with: mds migrate-to --database URL --storage URL'])
    : error;
}

const OPTIONS = { database_url: '--database', storage_url: '--storage', s3_endpoint: '--s3-endpoint' } as const;

/** Adds hints to a refused destination: the service names the fields of its API, the hints name the options. */
function withOptions(error: unknown): unknown {
  const problem = isApiError(error) ? JSON.stringify(error.problem) : '';
  const named = Object.entries(OPTIONS).filter(([field]) => problem.includes(field));
  const hints = named.map(([field, option]) => `${option} sets ${field}.`);
  return hints.length === 0 ? error : new StoppedError(error, hints);
}

async function follow(context: Context, client: Client, started: Migration): Promise<Migration> {
  let latest = started;
  const display = createMoveDisplay();
  display.update(latest);
  const block = createLiveBlock(context.progress, (width) => display.lines(width, context.errorColours));
  const { signal } = context.io;
  try {
    while (latest.state === 'running') {
      await sleep(POLL_MS, undefined, { signal });
      latest = await client.control.migrations.current({ signal });
      display.update(latest);
    }
  } catch (error) {
    throw new StoppedError(signal.aborted ? signal.reason : error, stopHints(signal.aborted, latest));
  } finally {
    block.stop();
  }
  return latest;
}

/** Hints for a user who interrupts the command, or whose service stops answering, before the move is over. */
function stopHints(interrupted: boolean, { objects }: Migration): string[] {
  const copied = `${counted(objects.verified, 'object')} (${humanBytes(objects.verified_bytes)}) were already verified at the destination.`;
  return interrupted
    ? [
        `The service continues the move. ${copied}`,
        '`mds migrate-to --status` shows its progress, the same command follows it again, and `mds migrate-to --cancel` ends it.',
      ]
    : [copied, 'If the service has ended, start it and run the same command again: nothing is copied twice.'];
}

function printMigration(context: Context, migration: Migration): void {
  const { state, objects, rows, settings, errors, error_count: errorCount, open_uploads: openUploads } = migration;
  if (context.json) context.printJson(migration);
  else {
    const verb =
      state === 'running'
        ? PHASES[migration.phase]
        : state === 'done'
          ? 'Moved and equal'
          : `The move ${state === 'failed' ? 'failed' : 'was canceled'}`;
    const seen = `${counted(objects.verified, 'object')}, ${counted(rows.copied, 'row')}`;
    context.note(`${verb}: ${seen}.`);
    const { frozen_at: frozenAt, ended_at: endedAt } = migration;
    if (frozenAt !== null && endedAt !== null)
      context.note(
        `Writes were refused for the last ${humanTiming(Date.parse(endedAt) - Date.parse(frozenAt))} of the move.`,
      );
    for (const { key, message } of errors) context.note(key === null ? message : `${key}: ${message}`);
    if (errorCount > errors.length) context.note(`and ${errorCount - errors.length} more`);
    if (state === 'done') {
      if (openUploads) context.note(`${counted(openUploads, 'open upload')} did not move; senders must start again.`);
      context.note('This service keeps refusing writes. Start the service at the destination with:');
      for (const [name, value] of Object.entries(settings ?? {})) context.print(`${name}=${value}`);
    }
  }
  if (state === 'failed' || state === 'canceled')
    throw new ReportedError(`The move has ${state === 'failed' ? 'failed' : 'been canceled'}.`);
}
