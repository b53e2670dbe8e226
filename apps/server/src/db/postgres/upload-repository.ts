import { and, asc, count, eq, getTableColumns, gt, isNotNull, isNull, lte, ne, sql } from 'drizzle-orm';
import type { UploadRepository } from '../upload-repository.ts';
import { lockNames } from './advisory-locks.ts';
import type { PostgresDatabase } from './database.ts';
import { uploads } from './schema.ts';
import type { Transactions } from './transaction.ts';

const { lockHolder, lockBeat, lockReleaseRequested, ...recordColumns } = getTableColumns(uploads);
const UNLOCKED = { lockHolder: null, lockBeat: 0, lockReleaseRequested: false };

/** {@link UploadRepository} over PostgreSQL. */
export function createUploadRepository(
  db: PostgresDatabase,
  { transactions }: { transactions: Transactions },
): UploadRepository {
  const isOpen = (id: string) => and(eq(uploads.id, id), eq(uploads.state, 'open'));

  return {
    create: (upload, { maxOpen }) =>
      transactions.write(async (tx) => {
        // Those who count at the same time would all find room for one more.
        await lockNames(tx.db, [`uploads of ${upload.tokenSha256}`]);
        const open = await tx.db.$count(
          uploads,
          and(eq(uploads.tokenSha256, upload.tokenSha256), eq(uploads.state, 'open')),
        );
        if (open >= maxOpen) return false;
        await tx.db.insert(uploads).values({ ...upload, state: 'open' });
        return true;
      }),

    async find(id) {
      return (await db.select(recordColumns).from(uploads).where(eq(uploads.id, id)))[0] ?? null;
    },

    async declareLength(id, length) {
      const undeclared = and(isOpen(id), isNull(uploads.length));
      return (await db.update(uploads).set({ length }).where(undeclared)).rowCount === 1;
    },

    async postpone(id, expiresAtMs) {
      await db.update(uploads).set({ expiresAtMs }).where(isOpen(id));
    },

    async finish(id, outcome, expiresAtMs) {
      const { rowCount } = await db
        .update(uploads)
        .set({ ...outcome, expiresAtMs })
        .where(isOpen(id));
      return rowCount === 1;
    },

    async open({ after, limit }) {
      return db
        .select(recordColumns)
        .from(uploads)
        .where(and(eq(uploads.state, 'open'), after === null ? undefined : gt(uploads.id, after)))
        .orderBy(asc(uploads.id))
        .limit(limit);
    },

    async countOpen() {
      const [row] = await db.select({ n: count() }).from(uploads).where(eq(uploads.state, 'open'));
      return row?.n ?? 0;
    },

    async overdue(nowMs, limit) {
      return db
        .select(recordColumns)
        .from(uploads)
        .where(and(eq(uploads.state, 'open'), lte(uploads.expiresAtMs, nowMs)))
        .orderBy(asc(uploads.expiresAtMs))
        .limit(limit);
    },

    async forget(nowMs) {
      const over = and(ne(uploads.state, 'open'), lte(uploads.expiresAtMs, nowMs));
      return (await db.delete(uploads).where(over)).rowCount ?? 0;
    },

    lock: (id, holder) =>
      transactions.write(async (tx) => {
        const [row] = await tx.db
          .select({ lockHolder, lockBeat })
          .from(uploads)
          .where(eq(uploads.id, id))
          .for('update');
        if (row === undefined) return undefined;
        if (row.lockHolder !== null) return { holder: row.lockHolder, beat: row.lockBeat };
        await tx.db
          .update(uploads)
          .set({ ...UNLOCKED, lockHolder: holder })
          .where(eq(uploads.id, id));
        return null;
      }),

    async takeLock(id, from, holder) {
      const unchanged = and(eq(uploads.id, id), eq(uploads.lockHolder, from.holder), eq(uploads.lockBeat, from.beat));
      const taken = { ...UNLOCKED, lockHolder: holder };
      return (await db.update(uploads).set(taken).where(unchanged)).rowCount === 1;
    },

    async requestRelease(id) {
      await db.update(uploads).set({ lockReleaseRequested: true }).where(eq(uploads.id, id));
    },

    async releaseRequested(holder) {
      const asked = and(eq(uploads.lockHolder, holder), eq(lockReleaseRequested, true));
      const rows = await db.select({ id: uploads.id }).from(uploads).where(asked);
      return rows.map(({ id }) => id);
    },

    async beat(holder) {
      const rows = await db
        .update(uploads)
        .set({ lockBeat: sql`${uploads.lockBeat} + 1` })
        .where(eq(uploads.lockHolder, holder))
        .returning({ id: uploads.id });
      return rows.map(({ id }) => id);
    },

    async unlock(id, holder) {
      await db
        .update(uploads)
        .set(UNLOCKED)
        .where(and(eq(uploads.id, id), eq(uploads.lockHolder, holder)));
    },

    async unlockAll() {
      await db.update(uploads).set(UNLOCKED).where(isNotNull(uploads.lockHolder));
    },
  };
}
