import type { IQueueBackend } from 'bullmq';
import type { QueueEngine } from './queue-engine.ts';

/**
 * The operations that differ between the storages of BullMQ: its interface reads jobs one by one, and does not define
 * the behavior of an unavailable server.
 */
export interface BullStore<B extends IQueueBackend> extends Pick<QueueEngine, 'find' | 'page' | 'alone' | 'close'> {
  /** Runs a call to the server. @throws EngineAwayError if it does not answer, and that is logged elsewhere */
  ask<T>(run: () => Promise<T>): Promise<T>;
  /**
   * Hands an active job out again at once, at its old place in the order. @throws BullMQ's error if the job is not active under this token
   */
  putBackNow(backend: B, id: string, token: string): Promise<unknown>;
  /** Handles errors of a connection that no call waits for. */
  onError(error: Error): void;
}

/** The id of a job in BullMQ, which takes no number. */
export function engineId(jobId: number): string {
  return `job-${jobId}`;
}

/** The job of an {@link engineId}; null if it is none. */
export function jobIdOf(id: string): number | null {
  const digits = /^job-(\d+)$/.exec(id)?.[1];
  return digits === undefined ? null : Number(digits);
}
