import { Pool } from 'pg';
import type { FleetNode } from './fleet.ts';

/** A job whose worker was killed. */
export interface LostJob {
  mediaId: string;
  /** Token of the dead worker's lease. */
  token: string;
  /** Time of the kill, by the monotonic clock. */
  killedAtMs: number;
  /** Milliseconds until another worker got a lease, or the job was done; null: not yet. */
  takenUpMs: number | null;
}

/** The tables, read without the service. */
export interface DatabaseWatch {
  /** Records the jobs of a worker that was killed. @returns how many */
  noteDeath(node: FleetNode, pid: number): Promise<number>;
  readonly lostJobs: readonly LostJob[];
  /** Numbers of all events that were ever written. */
  events(): Promise<ReadonlySet<number>>;
  /** Rows of a query. */
  query<T extends object>(sql: string, values?: unknown[]): Promise<T[]>;
  stop(): Promise<void>;
}

const LOOK_MS = 250;
/** An event may be committed after one with a larger number. */
const LATE_EVENTS = 1_000;

export function watchDatabase(url: string): DatabaseWatch {
  const pool = new Pool({ connectionString: url, max: 2 });
  const lostJobs: LostJob[] = [];
  const events = new Set<number>();
  let latest = 0;
  const query = async <T extends object>(sql: string, values: unknown[] = []): Promise<T[]> =>
    (await pool.query<T>(sql, values)).rows;

  const readEvents = async () => {
    const rows = await query<{ seq: number }>('SELECT seq::int FROM events WHERE seq > $1', [latest - LATE_EVENTS]);
    for (const { seq } of rows) {
      events.add(seq);
      latest = Math.max(latest, seq);
    }
  };

  const readJobs = async () => {
    const waiting = lostJobs.filter(({ takenUpMs }) => takenUpMs === null);
    if (waiting.length === 0) return;
    const rows = await query<{ id: string; token: string | null }>(
      'SELECT media_id AS id, lease_token AS token FROM jobs WHERE media_id = ANY($1)',
      [waiting.map(({ mediaId }) => mediaId)],
    );
    for (const job of waiting) {
      const row = rows.find(({ id }) => id === job.mediaId);
      if (row && (row.token === null || row.token === job.token)) continue;
      job.takenUpMs = performance.now() - job.killedAtMs;
    }
  };

  let looking: Promise<void> = Promise.resolve();
  let failure: unknown = null;
  const timer = setInterval(() => {
    looking = looking
      .then(readEvents)
      .then(readJobs)
      .catch((error: unknown) => {
        failure ??= error;
      });
  }, LOOK_MS);

  return {
    lostJobs,
    query,
    async noteDeath(node, pid) {
      if (node.role !== 'worker') return 0;
      const killedAtMs = performance.now();
      const held = await query<{ id: string; token: string }>(
        "SELECT media_id AS id, lease_token AS token FROM jobs WHERE lease_worker LIKE '%:' || $1 || ':%'",
        [String(pid)],
      );
      lostJobs.push(...held.map(({ id, token }) => ({ mediaId: id, token, killedAtMs, takenUpMs: null })));
      return held.length;
    },
    async events() {
      await readEvents();
      if (failure !== null) throw failure;
      return events;
    },
    async stop() {
      clearInterval(timer);
      await looking;
      await pool.end();
    },
  };
}
