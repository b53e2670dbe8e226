import type { PostgresQueueBackend } from 'bullmq';
import type { Pool } from 'pg';
import type { Logger } from '../../base/logger.ts';
import { type BullStore, engineId, jobIdOf } from './bull-store.ts';
import type { EngineJob } from './queue-engine.ts';
import { createAlone } from './queue-pool.ts';

/** Columns of BullMQ's table `job`. */
interface JobColumns {
  id: string;
  state: string;
  lock_token: string | null;
  process_at_ms: string | null;
}

/**
 * {@link BullStore}: the tables of BullMQ's PostgreSQL backend.
 * @param parts.pool connections whose `search_path` is BullMQ's schema
 * @param parts.name of the queue
 */
export function createPostgresJobs(parts: {
  pool: Pool;
  name: string;
  logger: Logger;
}): BullStore<PostgresQueueBackend> {
  const { pool, name, logger } = parts;

  const scan = async (where: string, values: unknown[]): Promise<(EngineJob & { id: string })[]> => {
    // BullMQ reads jobs one by one. This reads only their states, of a thousand at once.
    const columns = 'id, state::text AS state, lock_token, process_at_ms';
    const query = `SELECT ${columns} FROM job WHERE queue = $1 AND ${where}`;
    const { rows } = await pool.query<JobColumns>(query, [name, ...values]);
    return rows.flatMap((job) => {
      const jobId = jobIdOf(job.id);
      const state = stateOf(job.state);
      const dueInMs = state === 'delayed' ? Math.max(0, Number(job.process_at_ms) - Date.now()) : 0;
      return jobId === null ? [] : [{ id: job.id, jobId, state, token: job.lock_token, dueInMs }];
    });
  };

  return {
    ask: (run) => run(),

    onError({ message }) {
      logger.warn({ reason: message }, 'job engine has trouble with its database');
    },

    // The job keeps its place in the order. Its due time of 1970 has passed by every clock. `move_active_to_wait` reads and writes
    // separately.
    putBackNow: (backend, id, token) => backend.moveToDelayed(id, 0, 0, token, { skipAttempt: true }),

    find: (jobIds) => scan('id = ANY($2)', [jobIds.map(engineId)]),

    async page(after, limit) {
      const states = "state IN ('waiting', 'delayed', 'active')";
      const jobs = await scan(`${states} AND id > $2 ORDER BY id LIMIT $3`, [after ?? '', limit]);
      return { jobs, next: jobs.length < limit ? null : (jobs.at(-1)?.id ?? null) };
    },

    alone: createAlone(pool, name),
    close: () => pool.end(),
  };
}

function stateOf(state: string): EngineJob['state'] {
  return state === 'waiting' || state === 'delayed' || state === 'active' ? state : 'finished';
}
