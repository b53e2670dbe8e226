import { expect, it } from 'vitest';
import { createSettling, type FileSign } from './settling.ts';

const SETTLE_MS = 2_000;

/** The attributes of a file that a scanner creates `at` milliseconds into a day. */
function made(at: number, change: Partial<FileSign> = {}): FileSign {
  return { size: 10, ino: 7, birthtimeMs: at, mtimeMs: at, ctimeMs: at, ...change };
}
const file = (stats: FileSign) => ({ path: '/scans/a.jpg', stats, link: false });

it('a file settles after it was unchanged for the whole time, by our own clock', () => {
  const settling = createSettling(SETTLE_MS);
  // Its timestamps come from a server whose clock is a year ahead.
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
  ['its ctime alone, as under a file server that restores mtime for its clients', { ctimeMs: 1 }],
])('a file that changes %s must settle again', (_, change) => {
  const settling = createSettling(SETTLE_MS);
  settling.see(file(made(0)), 0, false);
  expect(settling.see(file(made(0, change)), 1_900, false)?.state).toBe('settling');
  expect(settling.see(file(made(0, change)), 3_800, false)?.state).toBe('settling');
  expect(settling.see(file(made(0, change)), 3_900, false)?.state).toBe('settled');
});

it('a file seen under a temporary name is complete at once when it is renamed', () => {
  const settling = createSettling(SETTLE_MS);
  settling.seeTemporary(made(0));
  expect(settling.see(file(made(0, { ctimeMs: 5 })), 10, false)?.state).toBe('settled');
  // Only once: the next file with this inode number is another file.
  settling.drop('/scans/a.jpg');
  expect(settling.see(file(made(0)), 20, false)?.state).toBe('settling');
});

it.each([
  ['moved here from another folder: complete at once', {}, true, 'settled'],
  ['found by a scan, so that its age is unknown', {}, false, 'settling'],
  ['written to a moment ago', { mtimeMs: 99_000 }, true, 'settling'],
  ['created just now, with an old mtime', { birthtimeMs: 99_999 }, true, 'settling'],
  ['on a file system without birth times', { birthtimeMs: 0 }, true, 'settling'],
])('a name that is new: %s', (_, change, announced, state) => {
  const settling = createSettling(SETTLE_MS);
  const stats = made(10_000, { ctimeMs: 100_000, ...change });
  expect(settling.see(file(stats), 0, announced)?.state).toBe(state);
});

it('holds a bounded number of files, and accepts others when there is room', () => {
  const settling = createSettling(0);
  let taken = 0;
  for (let n = 0; n < 20_000; n++) if (settling.see({ path: `/${n}`, stats: made(0), link: false }, 0, false)) taken++;
  expect([taken, settling.full, settling.hasRoom]).toEqual([5_000, true, false]);
  for (let n = 0; n < 2_501; n++) settling.drop(`/${n}`);
  expect([settling.full, settling.hasRoom]).toEqual([false, true]);
});
