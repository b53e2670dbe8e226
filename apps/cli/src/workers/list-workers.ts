import type { Job, JobWorker } from '@mds/client';
import type { Context } from '../context.ts';
import { humanAge, percent } from '../output/quantities.ts';
import type { Column } from '../output/table.ts';

/** Lists workers, with a line for each job or for a worker without jobs. */
export async function listWorkers(context: Context): Promise<void> {
  const client = await context.operator();
  const list = await client.control.workers.list({ signal: context.io.signal });
  context.list({
    rows: list.data.flatMap(rowsOf),
    columns: columnsOf(context),
    json: list,
    empty: 'No workers: nothing is processed until one is started (MDS_ROLES: worker).',
  });
}

/** One line: a job of a worker, or a worker without jobs. */
interface Row {
  worker: JobWorker;
  job: Job | null;
  /** Whether the line above belongs to the same worker. */
  isContinued: boolean;
}

function rowsOf(worker: JobWorker): Row[] {
  if (worker.jobs.length === 0) return [{ worker, job: null, isContinued: false }];
  return worker.jobs.map((job, index) => ({ worker, job, isContinued: index > 0 }));
}

function columnsOf({ interactive }: Context): Column<Row>[] {
  const now = Date.now();
  const none = interactive ? '-' : '';
  const age = (at: string | null) => (at === null ? none : interactive ? humanAge(at, now) : at);
  const ofWorker = (title: string, of: (worker: JobWorker) => string, more: Partial<Column<Row>> = {}) => ({
    title,
    text: ({ worker, isContinued }: Row) => (isContinued ? '' : of(worker)),
    // Programs get complete lines.
    plain: ({ worker }: Row) => of(worker),
    ...more,
  });
  const ofJob = (title: string, of: (job: Job) => string, more: Partial<Column<Row>> = {}) => ({
    title,
    text: ({ job }: Row) => (job === null ? none : of(job)),
    ...more,
  });
  // A worker's id begins with host and process id, so the id is the first column to drop.
  const id = ofWorker('ID', (worker) => worker.id, { expendable: 4 });
  const host = ofWorker('HOST', (worker) => worker.host ?? none, { shrinkTo: 8 });
  const pid = ofWorker('PID', (worker) => String(worker.pid), { align: 'right' });
  const region = ofWorker('REGION', (worker) => worker.region ?? none, { expendable: 3 });
  const since = ofWorker('SINCE', (worker) => age(worker.since), { align: 'right', expendable: 1 });
  const mediaObject = ofJob('MEDIA', (job) => job.media_id);
  const started = ofJob('STARTED', (job) => age(job.started_at), { align: 'right', expendable: 2 });
  const done = ofJob('DONE', ({ progress }) => (progress === null ? '-' : percent(progress)), {
    plain: ({ job }) => String(job?.progress ?? ''),
    align: 'right',
  });
  if (interactive) {
    const running = ofWorker('RUNNING', (worker) => `${worker.running} of ${worker.concurrency}`, { align: 'right' });
    return [id, host, pid, region, since, running, mediaObject, started, done];
  }
  const concurrency = ofWorker('CONCURRENCY', (worker) => String(worker.concurrency));
  const running = ofWorker('RUNNING', (worker) => String(worker.running));
  const job = ofJob('JOB', (held) => held.id);
  return [id, host, pid, region, concurrency, since, running, mediaObject, started, done, job];
}
