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

/** Between two looks at how far it is. */
const LOOK_MS = 500;

/**
 * Has the service move its data, shows how far it is, and tells what came of it.
 * @throws ReportedError where it is not done
 */
export async function migrateTo(context: Context, options: MigrateToArguments): Promise<void> {
  const client = await context.operator();
  const { migrations } = client.control;
  const { signal } = context.io;
  if (options.status) return tell(context, await migrations.current({ signal }).catch(noneBegun));
  if (options.cancel) {
    const canceled = await migrations.cancel({ signal }).catch(noneBegun);
    if (context.json) context.printJson(canceled);
    else context.note('Canceled. The service takes writes again.');
    return;
  }
  tell(context, await follow(context, client, await begin(context, client, options)));
}

async function begin(context: Context, client: Client, options: MigrateToArguments): Promise<Migration> {
  const database = options.database ?? context.io.env['MDS_TARGET_DATABASE_URL'];
  const { storage, s3Endpoint } = options;
  if (!database || storage === undefined) {
    throw new CliError('Where to? --database (or MDS_TARGET_DATABASE_URL) and --storage are both needed.', {
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
    // Begun before: by this command, which was interrupted, or whose answer was lost.
    const current = await client.control.migrations.current({ signal }).catch(() => null);
    if (current === null || !isTo(current, { database, storage, s3Endpoint })) throw error;
    if (current.state !== 'running' && current.state !== 'done') throw error;
    if (current.state === 'running') context.note('It is under way already.');
    return current;
  }
}

/** Whether a move is to where this one is wanted to, as far as the service shows it. */
function isTo(
  { destination, settings }: Migration,
  { database, storage, s3Endpoint }: { database: string; storage: string; s3Endpoint: string | undefined },
): boolean {
  const endpoint = settings?.['MDS_S3_ENDPOINT'];
  const isElsewhere = s3Endpoint !== undefined && settings !== null && addressOf(s3Endpoint) !== addressOf(endpoint);
  return destination.storage === storage && destination.database === shownDatabase(database) && !isElsewhere;
}

/** Host, port and database of a URL, as the service shows them; null of what is none. */
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

/** @throws the error, with the command that begins a move where none was begun */
function noneBegun(error: unknown): never {
  throw isNotFoundError(error)
    ? new StoppedError(error, ['One is begun by: mds migrate-to --database URL --storage URL'])
    : error;
}

const OPTIONS = { database_url: '--database', storage_url: '--storage', s3_endpoint: '--s3-endpoint' } as const;

/** What is wrong with a destination names fields of the request; these are the options that give them. */
function withOptions(error: unknown): unknown {
  const said = isApiError(error) ? JSON.stringify(error.problem) : '';
  const named = Object.entries(OPTIONS).filter(([field]) => said.includes(field));
  const hints = named.map(([field, option]) => `${field} is given by ${option}.`);
  return hints.length === 0 ? error : new StoppedError(error, hints);
}

async function follow(context: Context, client: Client, begun: Migration): Promise<Migration> {
  let latest = begun;
  const display = createMoveDisplay();
  display.look(latest);
  const block = createLiveBlock(context.progress, (width) => display.lines(width, context.errorColours));
  const { signal } = context.io;
  try {
    while (latest.state === 'running') {
      await sleep(LOOK_MS, undefined, { signal });
      latest = await client.control.migrations.current({ signal });
      display.look(latest);
    }
  } catch (error) {
    throw new StoppedError(signal.aborted ? signal.reason : error, afterStop(signal.aborted, latest));
  } finally {
    block.stop();
  }
  return latest;
}

/** What is to be known by who ends the command before the move is over, or loses the service on the way. */
function afterStop(interrupted: boolean, { objects }: Migration): string[] {
  const kept = `${counted(objects.verified, 'object')} (${humanBytes(objects.verified_bytes)}) were at the destination when last looked at.`;
  return interrupted
    ? [
        `The service goes on moving. ${kept}`,
        '`mds migrate-to --status` says how far it is, the same command follows it again, and `mds migrate-to --cancel` ends it.',
      ]
    : [kept, 'If the service has ended, start it and give the same command again: what is there is not copied again.'];
}

function tell(context: Context, migration: Migration): void {
  const { state, objects, rows, settings, errors, error_count: errorCount, open_uploads: openUploads } = migration;
  if (context.json) context.printJson(migration);
  else {
    const verb = state === 'running' ? PHASES[migration.phase] : state === 'done' ? 'Moved and equal' : `It ${state}`;
    const seen = `${counted(objects.verified, 'object')}, ${counted(rows.copied, 'row')}`;
    context.note(`${verb}: ${seen}.`);
    const { frozen_at: frozenAt, ended_at: endedAt } = migration;
    if (frozenAt !== null && endedAt !== null)
      context.note(
        `Writes were refused for the last ${humanTiming(Date.parse(endedAt) - Date.parse(frozenAt))} of it.`,
      );
    for (const { key, message } of errors) context.note(key === null ? message : `${key}: ${message}`);
    if (errorCount > errors.length) context.note(`and ${errorCount - errors.length} more`);
    if (state === 'done') {
      if (openUploads) context.note(`${counted(openUploads, 'open upload')} did not move; senders begin anew.`);
      context.note('This service goes on refusing writes. Start it at the destination with:');
      for (const [name, value] of Object.entries(settings ?? {})) context.print(`${name}=${value}`);
    }
  }
  if (state === 'failed' || state === 'canceled')
    throw new ReportedError(`The move has ${state === 'failed' ? 'failed' : 'been canceled'}.`);
}
