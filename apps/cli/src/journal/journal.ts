import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CliError } from '../exit-codes.ts';
import { jsonText } from '../output/json.ts';
import { type JournalEntry, type JournalOwner, readJournal, rewriteJournal } from './journal-file.ts';
import { type JournalLock, lockJournal } from './journal-lock.ts';

/** Identifies a version of a file: if both values are equal, the file is unchanged. */
export interface FileVersion {
  bytes: number;
  /** Time of the last change, milliseconds since the epoch with a fraction. */
  mtimeMs: number;
}

/** Records files across runs of the program. */
export interface Journal {
  readonly file: string;
  /** The number of unreadable lines when it was opened. Their files are sent again. */
  readonly damagedLines: number;
  /** The outcome of this version of a file; null if none is recorded. */
  find(path: string, version: FileVersion): JournalEntry | null;
  entries(): Iterable<JournalEntry>;
  /** Records the outcome of a file. The write is asynchronous; {@link close} waits for it. */
  record(entry: Omit<JournalEntry, 'at'>): void;
  /** Removes all records. */
  forgetAll(): Promise<void>;
  /** A key for the request that sends this version: the same in every run, until {@link forgetAll}. */
  idempotencyKey(path: string, version: FileVersion): string;
  /** Waits until everything is on disk and releases the lock. @throws if it could not be written */
  close(): Promise<void>;
}

/**
 * Opens or creates a journal. Lines damaged by a crash or a disk are dropped, because it is safe to send a file again.
 * @throws CliError if the file is no journal, belongs to another service or folder, or is in use
 */
export async function openJournal(file: string, owner: JournalOwner, signal: AbortSignal): Promise<Journal> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const lock = await lockJournal(file, signal);
  try {
    return await openLocked(file, owner, lock);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function openLocked(file: string, owner: JournalOwner, lock: JournalLock): Promise<Journal> {
  const found = await readJournal(file);
  if (found !== null) checkOwner(file, found.header, owner);
  let id = found?.header.id ?? randomBytes(8).toString('hex');
  const entries = found?.entries ?? new Map<string, JournalEntry>();
  const damagedLines = found?.damagedLines ?? 0;
  // Rewritten if half of it is out of date, or if its end cannot be trusted.
  if (found === null || found.lines > 2 * entries.size + 100 || found.torn || damagedLines > 0) {
    await rewriteJournal(file, { ...owner, id }, entries.values());
  }
  const log = createLog(await open(file, 'a'));

  return {
    file,
    damagedLines,
    find(path, { bytes, mtimeMs }) {
      const entry = entries.get(path);
      return entry?.bytes === bytes && entry.mtime_ms === mtimeMs ? entry : null;
    },
    entries: () => entries.values(),
    record(unstamped) {
      const entry = { ...unstamped, at: new Date().toISOString() };
      log.write(`${jsonText(entry, 0)}\n`);
      if (entry.state === 'gone') entries.delete(entry.path);
      else entries.set(entry.path, entry);
    },
    async forgetAll() {
      id = randomBytes(8).toString('hex');
      entries.clear();
      await log.flush();
      await rewriteJournal(file, { ...owner, id }, []);
      await log.reopen(await open(file, 'a'));
    },
    idempotencyKey: (path, { bytes, mtimeMs }) =>
      `mds-cli-${createHash('sha256').update([id, path, bytes, mtimeMs].join('\0')).digest('hex').slice(0, 32)}`,
    async close() {
      try {
        await log.close();
      } finally {
        await lock.release();
      }
    },
  };
}

function checkOwner(file: string, header: JournalOwner, owner: JournalOwner): void {
  const { kind, service, root } = header;
  if (kind === owner.kind && service === owner.service && root === owner.root) return;
  throw new CliError(`${file} is the journal of another command: mds ${kind} ${root ?? ''} to ${service}.`, {
    hints: ['Name another file with --journal.'],
  });
}

/** Appends lines to a file. Lines that arrive while the disk is busy are written in one piece and synced once. */
function createLog(handle: FileHandle) {
  let current = handle;
  let waiting = '';
  let writing: Promise<void> | null = null;
  let failure: unknown = null;

  const drain = async () => {
    while (waiting !== '' && failure === null) {
      const batch = waiting;
      waiting = '';
      try {
        await current.appendFile(batch);
        await current.datasync();
      } catch (error) {
        failure = error;
      }
    }
    writing = null;
  };
  const flush = async () => {
    while (writing !== null) await writing;
    if (failure !== null) throw failure;
  };
  return {
    /** @throws the error of an earlier line */
    write(line: string) {
      if (failure !== null) throw failure;
      waiting += line;
      writing ??= drain();
    },
    flush,
    async reopen(next: FileHandle) {
      await current.close();
      current = next;
    },
    async close() {
      try {
        await flush();
      } finally {
        await current.close();
      }
    },
  };
}
