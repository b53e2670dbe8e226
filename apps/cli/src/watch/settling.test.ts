import { expect, it } from 'vitest';
import { createSettling, type FileSign } from './settling.ts';

const SETTLE_MS = 2_000;

/** A file as a scanner makes it now, `at` milliseconds into a day. */
function made(at: number, change: Partial<FileSign> = {}): FileSign {
  return { size: 10, ino: 7, birthtimeMs: at, mtimeMs: at, ctimeMs: at, ...change };
}
const file = (stats: FileSign) => ({ path: '/scans/a.jpg', stats, link: false });

it('a file settles when it stood still for the whole time, by the clock of who watches', () => {
  const settling = createSettling(SETTLE_MS);
  // Its own times are of a server whose clock is a year ahead.
  const stats = made(1e12);
  expect(settling.see(file(stats), 0, true)?.state).toBe('settling');
  expect(settling.nextMs()).toBe(2_000);
  expect(settling.see(file(stats), 1_999, false)?.state).toBe('settling');
  expect(settling.due(2_000)).toEqual(['/scans/a.jpg']);
  expect(settling.see(file(stats), 2_000, false)?.state).toBe('settled');
  expect([settling.size, settling.settling, settling.nextMs()]).toEqual([1, 0, null]);
});

it.each([
  ['its size', { size: 11 }],
  ['its time', { mtimeMs: 1 }],
  ['its status alone, as a file server does that keeps the time a client has set', { ctimeMs: 1 }],
])('a file that changes %s begins to settle anew', (_, change) => {
  const settling = createSettling(SETTLE_MS);
  settling.see(file(made(0)), 0, false);
  expect(settling.see(file(made(0, change)), 1_900, false)?.state).toBe('settling');
  expect(settling.see(file(made(0, change)), 3_800, false)?.state).toBe('settling');
  expect(settling.see(file(made(0, change)), 3_900, false)?.state).toBe('settled');
});

it('a file that was seen under a temporary name is whole at once when it is renamed', () => {
  const settling = createSettling(SETTLE_MS);
  settling.seeTemporary(made(0));
  expect(settling.see(file(made(0, { ctimeMs: 5 })), 10, false)?.state).toBe('settled');
  // Once: what has that inode number next is another file.
  settling.drop('/scans/a.jpg');
  expect(settling.see(file(made(0)), 20, false)?.state).toBe('settling');
});

it.each([
  ['moved here from elsewhere: whole at once', {}, true, 'settled'],
  ['found by a look, when nobody knows since when it is there', {}, false, 'settling'],
  ['written to just before', { mtimeMs: 99_000 }, true, 'settling'],
  ['made just now, its time set to an old one while it is written', { birthtimeMs: 99_999 }, true, 'settling'],
  ['on a file system without birth times', { birthtimeMs: 0 }, true, 'settling'],
])('a name that is new: %s', (_, change, announced, state) => {
  const settling = createSettling(SETTLE_MS);
  const stats = made(10_000, { ctimeMs: 100_000, ...change });
  expect(settling.see(file(stats), 0, announced)?.state).toBe(state);
});

it('keeps a bounded number in mind, and takes others when there is room', () => {
  const settling = createSettling(0);
  let taken = 0;
  for (let n = 0; n < 20_000; n++) if (settling.see({ path: `/${n}`, stats: made(0), link: false }, 0, false)) taken++;
  expect([taken, settling.full, settling.hasRoom]).toEqual([5_000, true, false]);
  for (let n = 0; n < 2_501; n++) settling.drop(`/${n}`);
  expect([settling.full, settling.hasRoom]).toEqual([false, true]);
});
