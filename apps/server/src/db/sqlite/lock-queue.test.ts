import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Database } from './driver.ts';
import { createLockQueue } from './lock-queue.ts';

let folder: string;
let mine: Database;
let other: Database;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-lock-'));
  const file = join(folder, 'a.sqlite');
  [mine, other] = [new Database(file, { timeout: 0 }), new Database(file, { timeout: 0 })];
  mine.pragma('journal_mode = WAL');
  mine.exec('CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT UNIQUE)');
});
afterEach(async () => {
  mine.close();
  other.close();
  await rm(folder, { recursive: true });
});

const notesOf = (db: Database) => ({
  async add(text: string) {
    return db.prepare('INSERT INTO notes (text) VALUES (?)').run(text).changes;
  },
  async texts() {
    return db.prepare('SELECT text FROM notes ORDER BY id').pluck().all();
  },
  size: () => db.prepare('SELECT count(*) FROM notes').pluck().get(),
});

describe('a database that another connection has locked', () => {
  it('fault 20: delays writes, in order and once each, but not reads or the event loop', async () => {
    const queue = createLockQueue();
    const notes = queue.guard(notesOf(mine));
    other.exec('BEGIN EXCLUSIVE');
    const adding = ['a', 'b', 'c', 'd'].map((text) => notes.add(text));
    let turns = 0;
    const ticking = setInterval(() => {
      turns += 1;
    }, 5);
    await new Promise((resolve) => setTimeout(resolve, 300));
    clearInterval(ticking);
    expect(await notes.texts()).toEqual([]);
    expect(notes.size()).toBe(0);
    // An idle loop makes 60 turns; a wait that blocks the thread allows none.
    expect(turns).toBeGreaterThan(15);
    other.exec('COMMIT');
    expect(await Promise.all(adding)).toEqual([1, 1, 1, 1]);
    expect(await notes.texts()).toEqual(['a', 'b', 'c', 'd']);
  });

  it('fails each write as unavailable after its own wait, and writes nothing', async () => {
    const queue = createLockQueue();
    const longWait = queue.guard(notesOf(mine), 5_000);
    const shortWait = queue.guard(notesOf(mine), 100);
    other.exec('BEGIN EXCLUSIVE');
    const long = longWait.add('long');
    const began = performance.now();
    await expect(shortWait.add('short')).rejects.toMatchObject({
      code: 'unavailable',
      status: 503,
      headers: { 'Retry-After': '5' },
    });
    // It does not wait for the write before it.
    expect(performance.now() - began).toBeLessThan(4_000);
    other.exec('COMMIT');
    await long;
    expect(await longWait.texts()).toEqual(['long']);
  });

  it('does not hide other errors of a write, and drains before it is closed', async () => {
    const queue = createLockQueue();
    const notes = queue.guard(notesOf(mine));
    await notes.add('a');
    await expect(notes.add('a')).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT_UNIQUE' });
    other.exec('BEGIN EXCLUSIVE');
    const again = notes.add('a').catch((error: { code: string }) => error.code);
    const last = notes.add('b');
    let drained = false;
    const draining = queue.drained().then(() => {
      drained = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(drained).toBe(false);
    other.exec('COMMIT');
    expect([await again, await last]).toEqual(['SQLITE_CONSTRAINT_UNIQUE', 1]);
    await draining;
    expect(await notes.texts()).toEqual(['a', 'b']);
  });
});
