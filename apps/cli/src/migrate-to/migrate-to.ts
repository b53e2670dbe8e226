import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, isConflictError, type Migration } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT, ReportedError } from '../exit-codes.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { counted, humanBytes } from '../output/quantities.ts';

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

const PHASES: Record<Migration['phase'], string> = {
  objects: 'Copying objects; writes go on',
  rows: 'Copying rows; writes go on',
  verify: 'Comparing both sides; writes go on',
  freeze: 'Waiting for the last writes; new ones are refused',
  changes: 'Copying the latest changes; writes are refused',
  done: 'Done',
};

/**
 * Has the service move its data, shows how far it is, and tells what came of it.
 * @throws ReportedError where it is not done
 */
export async function migrateTo(context: Context, options: MigrateToArguments): Promise<void> {
  const client = await context.operator();
  const { migrations } = client.control;
  const { signal } = context.io;
  if (options.status) return tell(context, await migrations.current({ signal }));
  if (options.cancel) {
    const canceled = await migrations.cancel({ signal });
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
    if (!isConflictError(error)) throw error;
    // Begun before: by this command, which was interrupted, or whose answer was lost.
    const current = await client.control.migrations.current({ signal }).catch(() => null);
    if (current?.state !== 'running' || current.destination.storage !== storage) throw error;
    context.note('It is under way already.');
    return current;
  }
}

async function follow(context: Context, client: Client, begun: Migration): Promise<Migration> {
  let latest = begun;
  const block = createLiveBlock(context.progress, () => [
    context.errorColours.dim(
      `${PHASES[latest.phase]}: ${counted(latest.objects.verified, 'object')} (${humanBytes(latest.objects.copied_bytes)} copied), ${counted(latest.rows.copied, 'row')}`,
    ),
  ]);
  try {
    while (latest.state === 'running') {
      await sleep(LOOK_MS, undefined, { signal: context.io.signal });
      latest = await client.control.migrations.current({ signal: context.io.signal });
    }
  } finally {
    block.stop();
  }
  return latest;
}

function tell(context: Context, migration: Migration): void {
  const { state, objects, rows, settings, errors, error_count: errorCount, open_uploads: openUploads } = migration;
  if (context.json) context.printJson(migration);
  else {
    const verb = state === 'running' ? PHASES[migration.phase] : state === 'done' ? 'Moved and equal' : `It ${state}`;
    const seen = `${counted(objects.verified, 'object')}, ${counted(rows.copied, 'row')}`;
    context.note(`${verb}: ${seen}.`);
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
