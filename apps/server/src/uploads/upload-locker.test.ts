import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../base/logger.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createUploadLocker, type UploadLocker, type UploadLockTiming } from './upload-locker.ts';

const OTHER = fileURLToPath(new URL('./locking-process.fixture.ts', import.meta.url));
const ID = `upl_${'0'.repeat(26)}`;
const ANOTHER = `upl_${'1'.repeat(26)}`;
const logger = createLogger('silent');

let root: string;
let repositories: Repositories;
let lockers: UploadLocker[];
let children: ChildProcess[];
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'mds-locks-'));
  repositories = openSqliteRepositories(join(root, 'mds.sqlite'));
  lockers = [];
  children = [];
  for (const id of [ID, ANOTHER]) {
    const upload = {
      ...{ id, projectId: 'default', tokenSha256: 'a', createdAtMs: 0, expiresAtMs: 1, metadata: null },
      ...{ filename: null, duplicate: 'existing' as const, idempotencyKey: null, expectedSha256: null, length: 1 },
    };
    await repositories.uploads.create(upload, { maxOpen: 2 });
  }
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  for (const locker of lockers) await locker.stop();
  await repositories.close();
  await rm(root, { recursive: true });
});

const makeLocker = (timing: Partial<UploadLockTiming> = {}, overrides: Partial<Repositories['uploads']> = {}) => {
  const locker = createUploadLocker({ uploads: { ...repositories.uploads, ...overrides }, logger, timing });
  lockers.push(locker);
  return locker;
};

/** Takes the lock in another process, which reports `held`, `asked` if it shall let go, and the result of `confirm`. */
const otherProcess = async (letsGo: boolean) => {
  const argv = ['--conditions=@mds/source', '--import', 'tsx', OTHER, join(root, 'mds.sqlite'), ID, String(letsGo)];
  const child = spawn(process.execPath, argv, { stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  const lines = createInterface({ input: child.stdout });
  const output = lines[Symbol.asyncIterator]();
  const nextWord = async () => String((await output.next()).value);
  expect(await nextWord()).toBe('held');
  return { child, nextWord, send: (word: string) => child.stdin.write(`${word}\n`) };
};

const never = new AbortController().signal;

describe('the lock of an upload', () => {
  it('has one holder; the next one asks for it and gets it when it is released', async () => {
    const locker = makeLocker();
    const first = locker.newLock(ID);
    const asked = new Promise<void>((resolve) => void first.lock(never, resolve));
    // Only this process holds it until the database grants the lock.
    await expect.poll(() => locker.tenure(ID)).not.toBeNull();
    expect(locker.isHeld(ID)).toBe(true);
    const second = locker.newLock(ID);
    let has = false;
    const waiting = second
      .lock(never, () => undefined)
      .then(() => {
        has = true;
      });
    await asked;
    await locker.confirm(ID);
    expect(has).toBe(false);
    await first.unlock();
    await waiting;
    await second.unlock();
    expect(locker.isHeld(ID)).toBe(false);
  });

  it('has one holder at a time, and every waiter gets its turn', async () => {
    const locker = makeLocker();
    let inside = 0;
    let most = 0;
    const turns = Array.from({ length: 20 }, () =>
      locker.run(ID, async () => {
        most = Math.max(most, ++inside);
        await new Promise((resolve) => setTimeout(resolve, 2));
        inside--;
      }),
    );
    await Promise.all(turns);
    expect(most).toBe(1);
  });

  it('if not released in time, gives 423 and stays with its holder', async () => {
    const locker = makeLocker({ waitMs: 50 });
    await locker.newLock(ID).lock(never, () => undefined);
    await expect(locker.newLock(ID).lock(never, () => undefined)).rejects.toMatchObject({
      code: 'upload_locked',
      status: 423,
      headers: { 'Retry-After': '1' },
    });
    await locker.confirm(ID);
  });

  it('gives 404 if the upload is gone', async () => {
    await expect(makeLocker().run('upl_gone', async () => undefined)).rejects.toMatchObject({
      code: 'upload_not_found',
    });
  });

  it('fault 11: is handed over between two processes on one database within seconds', async () => {
    const other = await otherProcess(true);
    const locker = makeLocker();
    await locker.newLock(ID).lock(never, () => undefined);
    expect(await other.nextWord()).toBe('asked');
    await locker.confirm(ID);
    expect(await other.nextWord()).toBe('gave');
    other.send('confirm');
    expect(await other.nextWord()).toBe('upload_locked');
  }, 60_000);

  it('blocks nobody after an outage during which it could not be released', async () => {
    let isAway = true;
    const unlock: Repositories['uploads']['unlock'] = async (...lock) => {
      if (isAway) throw new Error('the database is away');
      return repositories.uploads.unlock(...lock);
    };
    const mine = makeLocker({}, { unlock });
    const other = makeLocker();
    await mine.run(ID, async () => undefined);
    isAway = false;
    // There is always another upload in progress here, so this process sends heartbeats.
    const busy = mine.newLock(ANOTHER);
    await busy.lock(never, () => undefined);
    const began = performance.now();
    await other.run(ID, async () => undefined);
    expect(performance.now() - began).toBeLessThan(8_000);
    expect(mine.tenure(ANOTHER)).not.toBeNull();
    await busy.unlock();
  });

  it('fault 11: is not taken from a living process, however long that keeps it', async () => {
    const other = await otherProcess(false);
    const locker = makeLocker({ waitMs: 4000, deathMs: 2500 });
    await expect(locker.newLock(ID).lock(never, () => undefined)).rejects.toMatchObject({ code: 'upload_locked' });
    expect(await other.nextWord()).toBe('asked');
    other.send('confirm');
    expect(await other.nextWord()).toBe('has it');
  }, 60_000);

  it('fault 11: is taken from a stopped process, which then writes no further byte', async () => {
    const other = await otherProcess(false);
    const locker = makeLocker({ deathMs: 2500 });
    other.child.kill('SIGSTOP');
    await locker.newLock(ID).lock(never, () => undefined);
    other.child.kill('SIGCONT');
    other.send('confirm');
    const words = [await other.nextWord(), await other.nextWord()];
    expect(words).toContain('upload_locked');
    await locker.confirm(ID);
  }, 60_000);

  it('fault 11: is taken from a killed process', async () => {
    const other = await otherProcess(false);
    const ended = once(other.child, 'exit');
    other.child.kill('SIGKILL');
    await ended;
    const locker = makeLocker({ deathMs: 1000 });
    await locker.newLock(ID).lock(never, () => undefined);
    await locker.confirm(ID);
  }, 60_000);
});
