import { randomBytes } from 'node:crypto';
import { link, readFile, rename, stat, unlink, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { CliError } from '../exit-codes.ts';

/** A lock that this process holds. */
export interface JournalLock {
  release(): Promise<void>;
}

/** The holder of a lock, as its file records it. */
interface Holder {
  nonce: string;
  host: string;
  pid: number;
  /** When the process started, in the system's ownPath notation; null if unknown. Detects a process id that was reused. */
  began: string | null;
}

const HEARTBEAT_MS = 2_000;
/** A holder on another machine is dead if it sends no heartbeat for this long. */
const SILENCE_MS = 15_000;

/**
 * Locks a journal, so that only one process writes to it. For a holder on this machine, the system knows whether it lives. For one on
 * another machine or in another container, its heartbeats must continue by this process's clock.
 * @throws CliError with the holder if the lock is taken
 */
export async function lockJournal(journal: string, signal: AbortSignal): Promise<JournalLock> {
  const path = `${journal}.lock`;
  const nonce = randomBytes(8).toString('hex');
  const ownPath = `${path}.${nonce}`;
  const me: Holder = { nonce, host: hostname(), pid: process.pid, began: await startOf(process.pid) };
  await writeFile(ownPath, JSON.stringify(me), { flag: 'wx', mode: 0o600 });
  try {
    for (;;) {
      // Creating a hard link is atomic and never overwrites: whoever creates it has the lock.
      if (await succeedsUnless(link(ownPath, path), 'EEXIST')) break;
      const holder = await readHolder(path);
      if (holder === null) continue;
      if (await isAlive(holder, path, signal)) {
        throw new CliError(`Another mds uses this journal: process ${holder.pid} on ${holder.host}.`, {
          hints: [`The journal is ${journal}.`, 'End that process first, or give this one another journal: --journal'],
        });
      }
      await removeDeadLock(path, holder, nonce);
    }
  } finally {
    await unlink(ownPath);
  }
  const heartbeat = setInterval(() => void touch(path), HEARTBEAT_MS);
  heartbeat.unref();
  return {
    async release() {
      clearInterval(heartbeat);
      // After a long suspension this process counts as dead, and another one may hold the lock now.
      if ((await readHolder(path))?.nonce === nonce) await unlink(path);
    },
  };
}

/** Removes the lock of a dead holder. If a quicker process has replaced it meanwhile, that lock is put back. */
async function removeDeadLock(path: string, dead: Holder, nonce: string): Promise<void> {
  const moved = `${path}.${nonce}.dead`;
  if (!(await succeedsUnless(rename(path, moved), 'ENOENT'))) return;
  if ((await readHolder(moved))?.nonce !== dead.nonce) await succeedsUnless(link(moved, path), 'EEXIST');
  await unlink(moved);
}

async function isAlive({ host, pid, began }: Holder, path: string, signal: AbortSignal): Promise<boolean> {
  if (host === hostname()) {
    try {
      process.kill(pid, 0);
    } catch (error) {
      // EPERM: the process exists and belongs to another user.
      if (codeOf(error) !== 'EPERM') return false;
    }
    return began === null || (await startOf(pid)) === began;
  }
  const first = await heartbeatOf(path);
  for (let waitedMs = 0; waitedMs < SILENCE_MS; waitedMs += HEARTBEAT_MS / 2) {
    await delay(HEARTBEAT_MS / 2, undefined, { signal });
    if ((await heartbeatOf(path)) !== first) return true;
  }
  return false;
}

async function heartbeatOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

async function touch(path: string): Promise<void> {
  const now = new Date();
  // The share may be away for a while; a later heartbeat may succeed.
  await utimes(path, now, now).catch(() => undefined);
}

/** When a process started: the boot id and the 22nd field of its stat file (proc(5)). Null on systems other than Linux. */
async function startOf(pid: number): Promise<string | null> {
  try {
    const boot = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
    const text = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The second field is a name that may contain spaces and brackets.
    return `${boot}/${text.slice(text.lastIndexOf(')') + 2).split(' ')[19]}`;
  } catch {
    return null;
  }
}

/** Returns null if there is no lock file. */
async function readHolder(path: string): Promise<Holder | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Holder;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    if (error instanceof SyntaxError) {
      throw new CliError(`${path} is not a lock of mds.`, { hints: ['Remove it if no other mds runs.'], cause: error });
    }
    throw error;
  }
}

async function succeedsUnless(done: Promise<unknown>, code: string): Promise<boolean> {
  try {
    await done;
    return true;
  } catch (error) {
    if (codeOf(error) === code) return false;
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
