import { and, asc, count, eq, getTableColumns, gt, isNull, lte, ne, sql } from 'drizzle-orm';
import type { UploadRepository } from '../upload-repository.ts';
import type { SqliteDatabase } from './database.ts';
import { uploads } from './schema.ts';
import { WRITE } from './transaction.ts';

const { lockHolder, lockBeat, lockReleaseRequested, ...recordColumns } = getTableColumns(uploads);
const UNLOCKED = { lockHolder: null, lockBeat: 0, lockReleaseRequested: false };

/**
 * Runs a write that need not outlive a power failure, which ends whoever holds a lock: its commit does not wait for the disk, and so does
 * not keep the event loop while gigabytes are on their way there. Other processes see it at once all the same.
 */
function unsynced<T>(db: SqliteDatabase, write: () => T): T {
  db.$client.pragma('synchronous = NORMAL');
  try {
    return write();
  } finally {
    db.$client.pragma('synchronous = FULL');
  }
}

/** {@link UploadRepository} over SQLite. */
export function createUploadRepository(db: SqliteDatabase): UploadRepository {
  const isOpen = (id: string) => and(eq(uploads.id, id), eq(uploads.state, 'open'));
  const openOf = (tokenSha256: string): number =>
    db
      .select({ n: count() })
      .from(uploads)
      .where(and(eq(uploads.tokenSha256, tokenSha256), eq(uploads.state, 'open')))
      .get()?.n ?? 0;

  return {
    async create(upload, { maxOpen }) {
      return db.transaction((tx) => {
        if (openOf(upload.tokenSha256) >= maxOpen) return false;
        tx.insert(uploads)
          .values({ ...upload, state: 'open' })
          .run();
        return true;
      }, WRITE);
    },

    async find(id) {
      return db.select(recordColumns).from(uploads).where(eq(uploads.id, id)).get() ?? null;
    },

    async declareLength(id, length) {
      const undeclared = and(isOpen(id), isNull(uploads.length));
      return db.update(uploads).set({ length }).where(undeclared).run().changes > 0;
    },

    async postpone(id, expiresAtMs) {
      db.update(uploads).set({ expiresAtMs }).where(isOpen(id)).run();
    },

    async finish(id, outcome, expiresAtMs) {
      return (
        db
          .update(uploads)
          .set({ ...outcome, expiresAtMs })
          .where(isOpen(id))
          .run().changes > 0
      );
    },

    async open({ after, limit }) {
      return db
        .select(recordColumns)
        .from(uploads)
        .where(and(eq(uploads.state, 'open'), after === null ? undefined : gt(uploads.id, after)))
        .orderBy(asc(uploads.id))
        .limit(limit)
        .all();
    },

    async countOpen() {
      return db.select({ n: count() }).from(uploads).where(eq(uploads.state, 'open')).get()?.n ?? 0;
    },

    async overdue(nowMs, limit) {
      return db
        .select(recordColumns)
        .from(uploads)
        .where(and(eq(uploads.state, 'open'), lte(uploads.expiresAtMs, nowMs)))
        .orderBy(asc(uploads.expiresAtMs))
        .limit(limit)
        .all();
    },

    async forget(nowMs) {
      return db
        .delete(uploads)
        .where(and(ne(uploads.state, 'open'), lte(uploads.expiresAtMs, nowMs)))
        .run().changes;
    },

    async lock(id, holder) {
      return unsynced(db, () =>
        db.transaction((tx) => {
          const row = tx.select({ lockHolder, lockBeat }).from(uploads).where(eq(uploads.id, id)).get();
          if (row === undefined) return undefined;
          if (row.lockHolder !== null) return { holder: row.lockHolder, beat: row.lockBeat };
          tx.update(uploads)
            .set({ ...UNLOCKED, lockHolder: holder })
            .where(eq(uploads.id, id))
            .run();
          return null;
        }, WRITE),
      );
    },

    async takeLock(id, from, holder) {
      const unchanged = and(eq(uploads.id, id), eq(uploads.lockHolder, from.holder), eq(uploads.lockBeat, from.beat));
      const taken = { ...UNLOCKED, lockHolder: holder };
      return unsynced(db, () => db.update(uploads).set(taken).where(unchanged).run().changes > 0);
    },

    async requestRelease(id) {
      const requested = { lockReleaseRequested: true };
      unsynced(db, () => db.update(uploads).set(requested).where(eq(uploads.id, id)).run());
    },

    async releaseRequested(holder) {
      const asked = and(eq(uploads.lockHolder, holder), eq(lockReleaseRequested, true));
      return db
        .select({ id: uploads.id })
        .from(uploads)
        .where(asked)
        .all()
        .map(({ id }) => id);
    },

    async beat(holder) {
      const beating = db
        .update(uploads)
        .set({ lockBeat: sql`${uploads.lockBeat} + 1` })
        .where(eq(uploads.lockHolder, holder))
        .returning({ id: uploads.id });
      return unsynced(db, () => beating.all()).map(({ id }) => id);
    },

    async unlock(id, holder) {
      const ours = and(eq(uploads.id, id), eq(uploads.lockHolder, holder));
      unsynced(db, () => db.update(uploads).set(UNLOCKED).where(ours).run());
    },

    async unlockAll() {
      unsynced(db, () => db.update(uploads).set(UNLOCKED).where(sql`${uploads.lockHolder} is not null`).run());
    },
  };
}
