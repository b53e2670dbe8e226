import { describe, expect, it } from 'vitest';
import { type Admission, createAdmission } from './admission.ts';

/** An admission over a database whose calls wait `waitMs` for a connection. */
function overDatabase() {
  const database = { waitMs: 0 };
  const admission = createAdmission({ databaseWaitMs: () => database.waitMs });
  return { database, admission };
}

/** Requests a slot every ten milliseconds for `ms`. @returns whether each request was admitted */
function admitted(admission: Admission, kind: Parameters<Admission['take']>[0], fromMs: number, ms: number): boolean[] {
  return Array.from({ length: ms / 10 }, (_, n) => {
    const slot = admission.take(kind, fromMs + n * 10);
    slot?.done();
    return slot !== null;
  });
}

describe('fault 20: calls wait for a connection to the database', () => {
  it('a short burst is admitted; if it lasts, only as many as can be answered soon', () => {
    const { database, admission } = overDatabase();
    database.waitMs = 200;
    expect(admitted(admission, 'read', 0, 500)).not.toContain(false);
    expect(admitted(admission, 'read', 510, 500)).not.toContain(true);
    // The load stays at the bound: finished requests do not make room for another burst.
    database.waitMs = 20;
    expect(admitted(admission, 'read', 1_010, 300)).not.toContain(false);
    database.waitMs = 60;
    expect(admitted(admission, 'read', 1_310, 300)).not.toContain(true);
    expect(admission.refused).toBe(80);
  });

  it('a burst of API reads is refused if the wait is long; one of images is admitted', () => {
    const { database, admission } = overDatabase();
    database.waitMs = 600;
    expect(admitted(admission, 'read', 0, 100)).not.toContain(true);
    expect(admitted(admission, 'delivery', 0, 500)).not.toContain(false);
  });

  it('after a burst has ended, the next one is admitted', () => {
    const { database, admission } = overDatabase();
    database.waitMs = 200;
    admitted(admission, 'read', 0, 1_000);
    database.waitMs = 0;
    expect(admitted(admission, 'read', 1_000, 1_000)).not.toContain(false);
    database.waitMs = 200;
    expect(admitted(admission, 'read', 2_000, 500)).not.toContain(false);
  });

  it('operators, uploads and work for many requests are always admitted', () => {
    const { database, admission } = overDatabase();
    database.waitMs = 5_000;
    expect(admitted(admission, 'control', 0, 100)).not.toContain(false);
    expect(admitted(admission, 'upload', 0, 100)).not.toContain(false);
    expect(admission.take('read', 100, { forMany: true })).not.toBeNull();
    database.waitMs = 0;
    while (admission.take('read', 2_000) !== null);
    expect(admission.take('read', 2_000, { forMany: true })).not.toBeNull();
  });
});
