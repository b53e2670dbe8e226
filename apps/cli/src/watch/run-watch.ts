import { stat } from 'node:fs/promises';
import { relative, resolve, sep } from 'node:path';
import type { Client } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT, ReportedError } from '../exit-codes.ts';
import { outcomeOf } from '../ingest/ingest-files.ts';
import { sampleMediaIds } from '../ingest/ingest-journal.ts';
import { printOutcome, printSummary } from '../ingest/outcomes.ts';
import { createSendFile } from '../ingest/send-file.ts';
import { createTally } from '../ingest/tally.ts';
import { reasonOf } from '../ingest/walk-folder.ts';
import { defaultJournal } from '../journal/default-journal.ts';
import { type Journal, openJournal } from '../journal/journal.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { counted, humanTiming } from '../output/quantities.ts';
import { createDeliveries } from './deliveries.ts';
import type { Done } from './done-action.ts';
import { hasMedia } from './has-media.ts';
import { createServiceGate, type ServiceGate } from './service-gate.ts';
import { createWatchDisplay } from './watch-display.ts';
import { createFolderWatch } from './watch-folder.ts';
import { printWatchStatus } from './watch-status.ts';

/** The options of `mds watch`, parsed. */
export interface WatchArguments {
  done: Done['how'];
  doneDir?: string;
  /** Seconds. */
  settle: number;
  /** Seconds. */
  poll?: number;
  once?: boolean;
  parallel: number;
  journal?: string;
  status?: boolean;
}

/** After an interruption, running transfers have this long to finish. */
const GRACE_MS = 10_000;

/**
 * Ingests files that settle in a folder, until it is interrupted. An interruption is the normal end, not an error.
 * @throws CliError if the folder or the options are unusable or, with `once`, a file failed; the error of a refused token
 */
export async function runWatch(context: Context, label: string, options: WatchArguments): Promise<void> {
  const { io } = context;
  const folder = resolve(io.cwd, label);
  const { done, leaveOut } = doneOf(folder, options, io.cwd);
  const client = options.status ? await context.client() : await context.operator();
  const file = journalFile(context, client, folder, options.journal);
  if (options.status) return printWatchStatus(context, { label, folder, journal: file, leaveOut: [...leaveOut, file] });
  await requireFolder(label, folder);
  const journal = await openJournal(file, { kind: 'watch', service: client.baseUrl, root: folder }, io.signal);
  try {
    await watchFolder(context, { client, journal, label, folder, done, leaveOut: [...leaveOut, file] }, options);
  } finally {
    await journal.close();
  }
}

/** A watch: its folder and its parts. */
interface Watched {
  client: Client;
  journal: Journal;
  label: string;
  folder: string;
  done: Done;
  leaveOut: readonly string[];
}

async function watchFolder(context: Context, watched: Watched, options: WatchArguments): Promise<void> {
  const { client, journal, label, folder, done, leaveOut } = watched;
  const { io, errorColours } = context;
  const tally = createTally(false);
  const stop = new AbortController();
  const cut = new AbortController();
  let fatal: unknown = null;
  let trouble: string | null = null;
  const onInterrupt = () => {
    stop.abort(io.signal.reason);
    setTimeout(() => cut.abort(io.signal.reason), GRACE_MS).unref();
  };
  io.signal.addEventListener('abort', onInterrupt, { once: true });

  const block = createLiveBlock(context.progress, (width, height) =>
    display.lines({ width, height, colours: errorColours }),
  );
  const note = (line: string) => block.above(() => context.note(errorColours.yellow(line)));
  const warn = (line: string) => block.above(() => context.warn(line));
  const gate = createServiceGate({
    onClose(reason) {
      trouble = 'waiting for the service';
      warn(`The service cannot accept files: ${reason} Waiting for it.`);
    },
    onOpen(downMs) {
      trouble = null;
      note(`The service accepts files again, after ${humanTiming(downMs)}.`);
    },
  });
  const reportOutcome = (outcome: Parameters<typeof printOutcome>[1]) => {
    tally.add(outcome);
    block.above(() => printOutcome(context, outcome, false));
  };
  const watch = createFolderWatch({
    folder,
    settleMs: options.settle * 1000,
    pollMs: options.poll === undefined ? null : options.poll * 1000,
    leaveOut,
    journal,
    reportAccepted: done.how !== 'keep',
    onSettled: (file, shown, accepted) => deliveries.add({ file, shown, accepted }),
    onUnreadable(shown, why) {
      const error = { code: 'file_unreadable', message: `It cannot be read: ${why}.` };
      reportOutcome(outcomeOf({ label: `${label}${sep}${shown}` }, 'failed', null, error));
    },
    onMissing(why) {
      trouble = 'the folder is missing';
      warn(`${label}: ${why}. Waiting for it.`);
    },
    onBack() {
      trouble = null;
      note(`${label} is back.`);
    },
    onNoEvents: () =>
      warn(
        'The system cannot watch more folders: scanning every 5 s. Raise fs.inotify.max_user_watches, or use --poll.',
      ),
  });
  const deliveries = createDeliveries({
    ...{ client, journal, gate, done, label },
    send: createSendFile(client, io),
    parallel: options.parallel,
    stop: stop.signal,
    cut: cut.signal,
    onStart: (transfer) => display.start(transfer),
    onEnd: (transfer) => display.end(transfer),
    onOutcome: reportOutcome,
    release: watch.release,
    defer: watch.defer,
    onFatal(error) {
      fatal ??= error;
      stop.abort(error);
      cut.abort(error);
    },
  });
  const display = createWatchDisplay(tally, () => ({
    folder: label,
    trouble,
    settling: watch.settling,
    waiting: deliveries.waiting,
  }));

  try {
    await checkJournal(context, watched, gate, stop.signal);
    await watch.run(options.once === true, stop.signal);
    await deliveries.idle();
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    io.signal.removeEventListener('abort', onInterrupt);
    block.stop();
  }
  printSummary(context, tally, tally.files + watch.remaining, watch.complete);
  if (fatal !== null) throw fatal;
  if (options.once && tally.failed > 0 && !io.signal.aborted) {
    throw new ReportedError(`${counted(tally.failed, 'file')} of ${tally.files} could not be ingested.`);
  }
}

/** If the service has none of the recorded media, its data or the token's project is another one: everything is sent again. */
async function checkJournal(context: Context, { client, journal }: Watched, gate: ServiceGate, signal: AbortSignal) {
  const { damagedLines } = journal;
  if (damagedLines > 0)
    context.note(`${counted(damagedLines, 'line')} of the journal could not be read; those files are sent again.`);
  const ids = sampleMediaIds(journal);
  for (const id of ids) if (await hasMedia(client, id, gate, signal)) return;
  if (ids.length === 0) return;
  context.note('The service has none of the files that were ingested before; all files are sent again.');
  await journal.forgetAll();
}

function doneOf(
  folder: string,
  { done: how, doneDir }: WatchArguments,
  cwd: string,
): { done: Done; leaveOut: string[] } {
  const usage = (message: string) => new CliError(message, { exitCode: EXIT.usage });
  if (how !== 'move') {
    if (doneDir !== undefined) throw usage('--done-dir has an effect with --done move only.');
    return { done: { how }, leaveOut: [] };
  }
  if (doneDir === undefined) throw usage('--done move needs a destination: --done-dir DIR.');
  const target = resolve(cwd, doneDir);
  const inside = relative(target, folder);
  if (inside === '' || !(inside === '..' || inside.startsWith(`..${sep}`))) {
    throw usage('--done-dir must be neither the watched folder nor a folder that contains it.');
  }
  return { done: { how, folder: target }, leaveOut: [target] };
}

function journalFile(context: Context, client: Client, folder: string, named: string | undefined): string {
  const { io } = context;
  const file = named === undefined ? defaultJournal(io, 'watch', client.baseUrl, [folder]) : resolve(io.cwd, named);
  if (file !== null) return file;
  throw new CliError('There is no place for the journal.', {
    exitCode: EXIT.usage,
    hints: ['Name a file with --journal, or set XDG_STATE_HOME or HOME.'],
  });
}

async function requireFolder(label: string, folder: string): Promise<void> {
  const problem = await stat(folder).then(
    (stats) => (stats.isDirectory() ? null : 'this is not a folder'),
    (error: unknown) => reasonOf(error, folder),
  );
  if (problem !== null) throw new CliError(`${label}: ${problem}`, { exitCode: EXIT.usage });
}
