import { and, eq } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { jobs, media } from './schema.ts';

/**
 * Locks a media object and then the job that somebody works on under a lease: in the order of those who delete a media object and its job with it,
 * so that nobody waits for a lock while another one waits for his. Of the media object only what others refer to it by stays free.
 * @returns the job, or null where the lease is lost
 */
export async function lockHeldJob(
  db: NodePgDatabase,
  lease: { mediaId: string; token: string },
): Promise<typeof jobs.$inferSelect | null> {
  await db.select({ id: media.id }).from(media).where(eq(media.id, lease.mediaId)).for('no key update');
  const [job] = await db
    .select()
    .from(jobs)
    .where(and(eq(jobs.mediaId, lease.mediaId), eq(jobs.leaseToken, lease.token)))
    .for('update');
  return job ?? null;
}
