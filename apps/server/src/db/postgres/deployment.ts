import type { ClientBase } from 'pg';
import { type Deployment, newDeploymentId } from '../deployment.ts';
import { ADVISORY_CLASS, DEPLOYMENT_LOCK } from './advisory-locks.ts';

/** The deployment that the database belongs to; the first time, a new one. Processes that ask at the same time get the same answer. */
export async function deploymentOf(client: ClientBase): Promise<Deployment> {
  const known = await find(client);
  if (known) return known;
  await client.query('BEGIN');
  try {
    await client.query('SELECT pg_advisory_xact_lock($1, $2)', [ADVISORY_CLASS, DEPLOYMENT_LOCK]);
    const text =
      'INSERT INTO deployments (id, created_at_ms) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM deployments)';
    await client.query(text, [newDeploymentId(), Date.now()]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
  const made = await find(client);
  if (!made) throw new Error('The database has no deployment, although one was just written.');
  return made;
}

async function find(client: ClientBase): Promise<Deployment | undefined> {
  const { rows } = await client.query<Deployment>(
    'SELECT id, EXISTS (SELECT 1 FROM media) AS "hasMedia" FROM deployments',
  );
  return rows[0];
}
