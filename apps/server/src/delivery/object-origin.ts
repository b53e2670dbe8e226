import type { Readable } from 'node:stream';
import { reasonOf } from '../base/error-reason.ts';
import type { ByteRange } from './byte-ranges.ts';
import type { ExpectedObject } from './verified-body.ts';

/**
 * Where a point of presence gets objects that it does not hold: the object store beside it, or over HTTP the service that it
 * belongs to. What comes from here is not verified.
 */
export interface ObjectOrigin {
  /** Whether it is where objects are kept for good: one that comes wrong again was damaged there, and not on its way. */
  readonly isStore?: boolean;
  /**
   * The object as a file of this machine, to be read where it lies instead of being copied into a cache; null where it is not
   * one, and `read` is to be used. Valid until `release`.
   */
  localFile(object: ExpectedObject): Promise<{ path: string; release(): Promise<void> } | null>;
  /**
   * Bytes `start` to `end`, both included. Null where the origin has no such object (any more).
   * @throws OriginUnavailableError where it does not answer: what is asked for may be there all the same
   */
  read(object: ExpectedObject, range: ByteRange, signal: AbortSignal): Promise<Readable | null>;
}

/** The origin did not answer, or not with what was asked for. */
export class OriginUnavailableError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OriginUnavailableError';
  }
}

/** An error for the log: an outage, which is foreseen, by its sentences alone, everything else with its stack. */
export function toldOf(error: unknown): { reason: string } | { err: unknown } {
  return error instanceof OriginUnavailableError ? { reason: reasonOf(error) } : { err: error };
}
