import { randomBytes } from 'node:crypto';
import { link, readFile, rename, stat, unlink, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { CliError } from '../exit-codes.ts';

/** A lock that is held. */
export interface JournalLock {
  release(): Promise<void>;
}

/** Who holds a lock, as its file says. */
interface Holder {
  nonce: string;
  host: string;
  pid: number;
  /** When the process began, in the system's own count; null where the system does not say. Process ids are used again. */
  began: string | null;
}

const BEAT_MS = 2_000;
/** A holder on another machine whose beat stands still for so long is dead. */
const SILENCE_MS = 15_000;

/**
 * Takes the lock of a journal: one process at a time writes to it. Of a holder on this machine the system says whether it
 * lives; of one elsewhere (a share, another container) its beat does, by this process's own clock.
 * @throws CliError naming the holder
 */
export async function lockJournal(journal: string, signal: AbortSignal): Promise<JournalLock> {
  const path = `${journal}.lock`;
  const nonce = randomBytes(8).toString('hex');
  const own = `${path}.${nonce}`;
  const me: Holder = { nonce, host: hostname(), pid: process.pid, began: await beginOf(process.pid) };
  await writeFile(own, JSON.stringify(me), { flag: 'wx', mode: 0o600 });
  try {
    for (;;) {
      // A hard link is made or not, never over another's: whoever makes it has the lock.
      if (await succeeds(link(own, path), 'EEXIST')) break;
      const holder = await readHolder(path);
      if (holder === null) continue;
      if (await lives(holder, path, signal)) {
        throw new CliError(`Another mds works with this journal: process ${holder.pid} on ${holder.host}.`, {
          hints: [`The journal is ${journal}.`, 'End that process first, or give this one another journal: --journal'],
        });
      }
      await takeAway(path, holder, nonce);
    }
  } finally {
    await unlink(own);
  }
  const beat = setInterval(() => void touch(path), BEAT_MS);
  beat.unref();
  return {
    async release() {
      clearInterval(beat);
      // Taken for dead after a long suspension, it may be another's by now.
      if ((await readHolder(path))?.nonce === nonce) await unlink(path);
    },
  };
}

/** Removes a dead holder's lock, and no other: what was moved away by mistake, of one who was quicker, goes back. */
async function takeAway(path: string, dead: Holder, nonce: string): Promise<void> {
  const aside = `${path}.${nonce}.dead`;
  if (!(await succeeds(rename(path, aside), 'ENOENT'))) return;
  if ((await readHolder(aside))?.nonce !== dead.nonce) await succeeds(link(aside, path), 'EEXIST');
  await unlink(aside);
}

async function lives({ host, pid, began }: Holder, path: string, signal: AbortSignal): Promise<boolean> {
  if (host === hostname()) {
    try {
      process.kill(pid, 0);
    } catch (error) {
      // EPERM: it is there, and another user's.
      if (codeOf(error) !== 'EPERM') return false;
    }
    return began === null || (await beginOf(pid)) === began;
  }
  const first = await beatOf(path);
  for (let waitedMs = 0; waitedMs < SILENCE_MS; waitedMs += BEAT_MS / 2) {
    await delay(BEAT_MS / 2, undefined, { signal });
    if ((await beatOf(path)) !== first) return true;
  }
  return false;
}

async function beatOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

async function touch(path: string): Promise<void> {
  const now = new Date();
  // A share that is away for a while: the next beat may reach it.
  await utimes(path, now, now).catch(() => undefined);
}

/** When a process began: the machine's start and the 22nd field of its stat (proc(5)). Null but on Linux. */
async function beginOf(pid: number): Promise<string | null> {
  try {
    const boot = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
    const text = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The second field is a name that may hold blanks and brackets.
    return `${boot}/${text.slice(text.lastIndexOf(')') + 2).split(' ')[19]}`;
  } catch {
    return null;
  }
}

/** Null where there is none, or none that was written to its end. */
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

async function succeeds(done: Promise<unknown>, otherwise: string): Promise<boolean> {
  try {
    await done;
    return true;
  } catch (error) {
    if (codeOf(error) === otherwise) return false;
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
