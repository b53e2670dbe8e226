import type { IQueueBackend } from 'bullmq';
import type { QueueEngine } from './queue-engine.ts';

/**
 * What BullMQ keeps its jobs in, as far as that makes a difference: BullMQ's interface reads jobs one by one, and does not say what it is
 * to do where the server is away.
 */
export interface BullStore<B extends IQueueBackend> extends Pick<QueueEngine, 'find' | 'page' | 'alone' | 'close'> {
  /** Runs something that asks the server. @throws EngineAwayError where it does not answer, if that is told of elsewhere */
  ask<T>(run: () => Promise<T>): Promise<T>;
  /** Has an active job handed out again at once, at its old place in the order. @throws BullMQ's error where it is not out under this token */
  putBackNow(backend: B, id: string, token: string): Promise<unknown>;
  /** Trouble of a connection that nobody waits for. */
  onError(error: Error): void;
}

/** BullMQ takes no number for an id. */
export function engineId(jobId: number): string {
  return `job-${jobId}`;
}

/** The job of an {@link engineId}; null where it is none. */
export function jobIdOf(id: string): number | null {
  const digits = /^job-(\d+)$/.exec(id)?.[1];
  return digits === undefined ? null : Number(digits);
}
