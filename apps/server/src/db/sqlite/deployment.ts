import { type Deployment, newDeploymentId } from '../deployment.ts';
import type { SqliteDatabase } from './database.ts';
import { deployments, media } from './schema.ts';

/** Which deployment the database is of; the first time, of a new one. */
export function deploymentOf(db: SqliteDatabase): Deployment {
  return db.transaction(
    (tx) => {
      const known = tx.select({ id: deployments.id }).from(deployments).get();
      const id = known?.id ?? newDeploymentId();
      if (!known) tx.insert(deployments).values({ id, createdAtMs: Date.now() }).run();
      return { id, hasMedia: tx.select({ id: media.id }).from(media).limit(1).get() !== undefined };
    },
    { behavior: 'immediate' },
  );
}
