import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { openJournal } from './journal.ts';
import type { JournalOwner } from './journal-file.ts';

const OWNER: JournalOwner = { kind: 'watch', service: 'http://mds.example', root: '/srv/scans' };
const version = (n: number) => ({ bytes: n, mtimeMs: n + 0.25 });
const accepted = (path: string, n: number) => ({
  ...{ path, bytes: n, mtime_ms: n + 0.25, state: 'accepted' as const },
  ...{ media_id: `med_${n}`, code: null, message: null },
});

async function setUp() {
  const folder = await mkdtemp(join(tmpdir(), 'mds-journal-'));
  const file = join(folder, 'state', 'journal.jsonl');
  return {
    file,
    open: (owner = OWNER, signal = new AbortController().signal) => openJournal(file, owner, signal),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

/** The entries of a journal after it is opened again. */
async function remembered(it: Awaited<ReturnType<typeof setUp>>): Promise<string[]> {
  const journal = await it.open();
  const paths = [...journal.entries()].map(({ path, bytes }) => `${path} ${bytes}`);
  await journal.close();
  return paths;
}

it('keeps the latest version of each file across runs, and removes gone ones', async () => {
  await using it = await setUp();
  const journal = await it.open();
  const odd = 'new\nline \u2028 and \u202e marks.jpg';
  for (const entry of [accepted('a', 1), accepted(odd, 2), accepted('a', 3), accepted('b', 4)]) journal.record(entry);
  journal.record({ ...accepted('b', 4), state: 'gone' });
  await journal.close();
  const again = await it.open();
  expect(again.find('a', version(3))?.media_id).toBe('med_3');
  expect(again.find('a', version(1))).toBeNull();
  expect(again.find(odd, version(2))?.media_id).toBe('med_2');
  expect(again.find('b', version(4))).toBeNull();
  await again.close();
});

it('keeps all complete lines if it was cut off at any byte, and can be written again', async () => {
  await using it = await setUp();
  const journal = await it.open();
  for (let n = 0; n < 2; n++) journal.record(accepted(`häuser-${n}.jpg`, n));
  await journal.close();
  const whole = await readFile(it.file);
  const header = whole.indexOf('\n') + 1;
  for (let length = header; length < whole.length; length++) {
    await writeFile(it.file, whole);
    await truncate(it.file, length);
    const lines = whole.subarray(0, length).toString('latin1').split('\n').length - 2;
    const cut = await it.open();
    // The last line may be complete except for its line break.
    expect([lines, lines + 1]).toContain([...cut.entries()].length);
    expect(cut.damagedLines).toBe(0);
    cut.record(accepted('after.jpg', 9));
    await cut.close();
    expect(await remembered(it)).toContain('after.jpg 9');
  }
});

it('a damaged line loses only that line, and is counted', async () => {
  await using it = await setUp();
  const journal = await it.open();
  for (const name of ['a', 'b', 'c']) journal.record(accepted(name, 1));
  await journal.close();
  const lines = (await readFile(it.file, 'utf8')).split('\n');
  lines[2] = '\0'.repeat(80);
  await writeFile(it.file, lines.join('\n'));
  const damaged = await it.open();
  expect(damaged.damagedLines).toBe(1);
  await damaged.close();
  expect(await remembered(it)).toEqual(['a 1', 'c 1']);
});

it('is compacted when most of it is out of date', async () => {
  await using it = await setUp();
  const journal = await it.open();
  for (let n = 0; n < 500; n++) journal.record(accepted('same.jpg', n));
  await journal.close();
  expect((await readFile(it.file, 'utf8')).split('\n')).toHaveLength(502);
  expect(await remembered(it)).toEqual(['same.jpg 499']);
  expect((await readFile(it.file, 'utf8')).split('\n')).toHaveLength(3);
});

it('gives a file version the same key in every run, and a new one after forgetAll', async () => {
  await using it = await setUp();
  const first = await it.open();
  const key = first.idempotencyKey('a', version(1));
  expect(first.idempotencyKey('a', version(2))).not.toBe(key);
  await first.close();
  const second = await it.open();
  expect(second.idempotencyKey('a', version(1))).toBe(key);
  await second.forgetAll();
  expect(second.idempotencyKey('a', version(1))).not.toBe(key);
  second.record(accepted('later', 1));
  await second.close();
  expect(await remembered(it)).toEqual(['later 1']);
});

it.each([
  ['of another folder', { ...OWNER, root: '/srv/other' }, 'is the journal of another command'],
  ['of another service', { ...OWNER, service: 'http://other' }, 'mds watch /srv/scans to http://mds.example'],
])('a journal %s is not changed', async (_, owner, message) => {
  await using it = await setUp();
  await (await it.open()).close();
  await expect(it.open(owner)).rejects.toThrow(message);
  // The lock is released too.
  expect(await remembered(it)).toEqual([]);
});

it('a file that is not a journal is not overwritten', async () => {
  await using it = await setUp();
  await (await it.open()).close();
  await writeFile(it.file, 'dear diary\n');
  await expect(it.open()).rejects.toThrow('is not a journal of mds, and was not changed');
  expect(await readFile(it.file, 'utf8')).toBe('dear diary\n');
});

/** A program that holds the lock until it is killed. */
async function holder(file: string) {
  const script = `
    import { lockJournal } from ${JSON.stringify(new URL('./journal-lock.ts', import.meta.url).href)};
    await lockJournal(${JSON.stringify(file)}, new AbortController().signal);
    console.log('held');
    setInterval(() => undefined, 1000);`;
  const child = spawn(
    process.execPath,
    ['--conditions=@mds/source', '--import', 'tsx', '--input-type=module', '-e', script],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  await once(child.stdout, 'data');
  return child;
}

it('only one process uses it at a time; a killed one leaves nothing behind', async () => {
  await using it = await setUp();
  await (await it.open()).close();
  const child = await holder(it.file);
  await expect(it.open()).rejects.toThrow(`Another mds uses this journal: process ${child.pid} on`);
  child.kill('SIGKILL');
  await once(child, 'exit');
  await (await it.open()).close();
  expect(await readdir(join(it.file, '..'))).toEqual(['journal.jsonl']);
});

it('a lock from before a restart of the machine does not block a reused process id', async () => {
  await using it = await setUp();
  await (await it.open()).close();
  const lock = { nonce: 'x', host: hostname(), pid: process.pid, began: 'another-boot/1' };
  await writeFile(`${it.file}.lock`, JSON.stringify(lock));
  await (await it.open()).close();
});

it('a holder on another machine counts as alive while it sends heartbeats', { timeout: 120_000 }, async () => {
  await using it = await setUp();
  await (await it.open()).close();
  const lock = `${it.file}.lock`;
  await writeFile(lock, JSON.stringify({ nonce: 'x', host: 'elsewhere.example', pid: 1, began: null }));
  let seconds = 0;
  const heartbeats = setInterval(() => void utimes(lock, new Date(), new Date(++seconds * 1000)), 500);
  await expect(it.open()).rejects.toThrow('process 1 on elsewhere.example');
  clearInterval(heartbeats);
  await delay(600);
  // The holder is dead: its lock is taken over after its heartbeats stopped for a while.
  await (await it.open()).close();
});
