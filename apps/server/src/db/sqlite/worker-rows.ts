import { asc, eq, sql } from 'drizzle-orm';
import type { JobQueue } from '../job-queue.ts';
import type { SqliteDatabase } from './database.ts';
import { workers } from './schema.ts';

/** The part of {@link JobQueue} that is about who has announced himself. */
export function createWorkerRows(db: SqliteDatabase): Pick<JobQueue, 'workerBeat' | 'workerGone' | 'workers'> {
  return {
    async workerBeat(worker) {
      db.insert(workers)
        .values({ ...worker, beat: 1 })
        .onConflictDoUpdate({ target: workers.id, set: { ...worker, beat: sql`${workers.beat} + 1` } })
        .run();
    },

    async workerGone(id) {
      db.delete(workers).where(eq(workers.id, id)).run();
    },

    async workers() {
      return db.select().from(workers).orderBy(asc(workers.id)).all();
    },
  };
}
