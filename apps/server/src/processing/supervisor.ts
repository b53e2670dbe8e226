import { type ChildProcess, fork } from 'node:child_process';
import type { Logger } from '../base/logger.ts';
import type { JobQueue } from '../db/job-queue.ts';

export interface SupervisorParts {
  /** The program of the worker. */
  entry: string;
  execArgv: string[];
  /** The environment of the worker; its role is set here. */
  env: NodeJS.ProcessEnv;
  /** Sent to each worker as its first message: `{ type: 'config', config }`. Not in the environment, which others may read. */
  config?: unknown;
  jobs: JobQueue;
  /** Whether a worker runs on this machine, by its id: process ids repeat on other machines. Default: all do. */
  isHere?: (workerId: string) => boolean;
  logger: Logger;
  timing?: Partial<SupervisorTiming>;
}

/** In milliseconds. */
export interface SupervisorTiming {
  /** Before the first restart; doubled with each one that follows soon. */
  firstDelayMs: number;
  longestDelayMs: number;
  /** A worker that lived this long resets the delays. */
  soundAfterMs: number;
  /** From SIGTERM to SIGKILL. */
  stopMs: number;
}

export interface SupervisorStats {
  /** Process id of the worker; null while there is none. */
  pid: number | null;
  restarts: number;
}

/** Keeps a worker process alive beside the service. */
export interface WorkerSupervisor {
  start(): void;
  /** Makes the worker look into the queue. */
  wake(): void;
  stop(): Promise<void>;
  readonly stats: SupervisorStats;
}

const TIMING: SupervisorTiming = { firstDelayMs: 250, longestDelayMs: 30_000, soundAfterMs: 60_000, stopMs: 15_000 };

/**
 * {@link WorkerSupervisor}: forks the entry of the worker. A render that crashes or starves its process does not affect the one that
 * answers requests. When the worker dies, its leases are taken back at once and another one is started.
 */
export function createWorkerSupervisor(parts: SupervisorParts): WorkerSupervisor {
  const { entry, execArgv, env, config, jobs, logger, isHere = () => true } = parts;
  const timing = { ...TIMING, ...parts.timing };
  let child: ChildProcess | null = null;
  let gone: Promise<void> = Promise.resolve();
  let restartTimer: NodeJS.Timeout | undefined;
  let running = false;
  let restarts = 0;
  let soonDeaths = 0;

  function launch(): void {
    const bornAt = performance.now();
    const worker = fork(entry, [], {
      execArgv,
      env: { ...env, MDS_ROLES: 'worker' },
      // The service's stdout has a reader of its own; all output of a worker is log.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    child = worker;
    // Nobody waits for the answer: a process that cannot be reached has exited, or will.
    if (config !== undefined) worker.send({ type: 'config', config }, () => undefined);
    gone = new Promise((resolve) => {
      let buried = false;
      const bury = (how: Record<string, unknown>) => {
        if (buried) return;
        buried = true;
        child = null;
        takeBack(worker.pid)
          .catch((error: unknown) => logger.error({ err: error }, 'leases of a dead worker could not be taken back'))
          .finally(() => {
            if (running) scheduleRestart(performance.now() - bornAt, how);
            resolve();
          });
      };
      worker.once('exit', (exitCode, signal) => bury({ workerPid: worker.pid, exitCode, signal }));
      // A process that could not be started has no exit.
      worker.on('error', (error) => {
        if (worker.pid === undefined) bury({ err: error });
        else logger.warn({ err: error, workerPid: worker.pid }, 'worker process could not be reached');
      });
    });
  }

  /** Takes back the leases of a process that is gone, without waiting for the monitor. */
  async function takeBack(pid: number | undefined): Promise<void> {
    const dead = (await jobs.workers()).filter((worker) => worker.pid === pid && isHere(worker.id)).map(({ id }) => id);
    for (const { token, worker } of await jobs.held()) {
      if (dead.includes(worker)) await jobs.reclaim(token, { counted: running });
    }
    for (const id of dead) await jobs.signOffWorker(id);
  }

  function scheduleRestart(livedMs: number, how: Record<string, unknown>): void {
    if (livedMs >= timing.soundAfterMs) soonDeaths = 0;
    const delayMs = Math.min(timing.firstDelayMs * 2 ** soonDeaths, timing.longestDelayMs);
    soonDeaths++;
    restarts++;
    logger.error({ ...how, delayMs }, 'worker process ended; another will be started');
    restartTimer = setTimeout(launch, delayMs);
  }

  return {
    start() {
      if (running) return;
      running = true;
      launch();
    },

    wake() {
      // If it is not connected, it is starting or dying. A new worker looks into the queue by itself.
      if (child?.connected) child.send({ type: 'wake' }, () => undefined);
    },

    async stop() {
      running = false;
      clearTimeout(restartTimer);
      const worker = child;
      worker?.kill('SIGTERM');
      const tooLong = setTimeout(() => worker?.kill('SIGKILL'), timing.stopMs);
      await gone;
      clearTimeout(tooLong);
    },

    get stats() {
      return { pid: child?.pid ?? null, restarts };
    },
  };
}
