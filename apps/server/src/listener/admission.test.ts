import { describe, expect, it } from 'vitest';
import { type Admission, createAdmission } from './admission.ts';

/** An admission over a database for whose connections calls wait as long as the test says. */
function overDatabase() {
  const database = { waitMs: 0 };
  const admission = createAdmission({ databaseWaitMs: () => database.waitMs });
  return { database, admission };
}

/** Asks every ten milliseconds for as long as `ms`. @returns whether each was taken on */
function taken(admission: Admission, kind: Parameters<Admission['take']>[0], fromMs: number, ms: number): boolean[] {
  return Array.from({ length: ms / 10 }, (_, n) => {
    const slot = admission.take(kind, fromMs + n * 10);
    slot?.done();
    return slot !== null;
  });
}

describe('fault 20: calls wait for a connection to the database', () => {
  it('in a burst they are let to; where it lasts, no more is taken on than is done soon', () => {
    const { database, admission } = overDatabase();
    database.waitMs = 200;
    expect(taken(admission, 'read', 0, 500)).not.toContain(false);
    expect(taken(admission, 'read', 510, 500)).not.toContain(true);
    // It goes on at the bound: what is worked off does not make room for another burst.
    database.waitMs = 20;
    expect(taken(admission, 'read', 1_010, 300)).not.toContain(false);
    database.waitMs = 60;
    expect(taken(admission, 'read', 1_310, 300)).not.toContain(true);
    expect(admission.refused).toBe(80);
  });

  it('a burst of pages that nobody would wait for is refused at once; one of pictures, as a page of a thousand is, is let in', () => {
    const { database, admission } = overDatabase();
    database.waitMs = 600;
    expect(taken(admission, 'read', 0, 100)).not.toContain(true);
    expect(taken(admission, 'delivery', 0, 500)).not.toContain(false);
  });

  it('when it is over, the next burst is let in again', () => {
    const { database, admission } = overDatabase();
    database.waitMs = 200;
    taken(admission, 'read', 0, 1_000);
    database.waitMs = 0;
    expect(taken(admission, 'read', 1_000, 1_000)).not.toContain(false);
    database.waitMs = 200;
    expect(taken(admission, 'read', 2_000, 500)).not.toContain(false);
  });

  it('operators and uploads go on, and so does what serves many', () => {
    const { database, admission } = overDatabase();
    database.waitMs = 5_000;
    expect(taken(admission, 'control', 0, 100)).not.toContain(false);
    expect(taken(admission, 'upload', 0, 100)).not.toContain(false);
    expect(admission.take('read', 100, { forMany: true })).not.toBeNull();
    database.waitMs = 0;
    while (admission.take('read', 2_000) !== null);
    expect(admission.take('read', 2_000, { forMany: true })).not.toBeNull();
  });
});
