import type { Readable } from 'node:stream';
import { reasonOf } from '../base/error-reason.ts';
import type { ByteRange } from './byte-ranges.ts';
import type { ExpectedObject } from './verified-body.ts';

/**
 * The source of objects that a point of presence does not hold: the object store beside it, or, over HTTP, the service that it
 * belongs to. Its bytes are not verified.
 */
export interface ObjectOrigin {
  /** Whether it stores objects permanently: an object that arrives damaged twice was damaged there, not on its way. */
  readonly isStore?: boolean;
  /**
   * The object as a file of this machine, which is read where it is stored instead of being copied into a cache. Valid until
   * `release`. Null if it is no such file; then `read` reads it.
   */
  localFile(object: ExpectedObject): Promise<{ path: string; release(): Promise<void> } | null>;
  /**
   * Bytes `start` to `end`, both included. Null if the origin does not have the object.
   * @throws OriginUnavailableError if it does not answer, although it may have the object
   */
  read(object: ExpectedObject, range: ByteRange, signal: AbortSignal): Promise<Readable | null>;
}

/** The origin did not answer, or sent something else. */
export class OriginUnavailableError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OriginUnavailableError';
  }
}

/** The fields of a log line for an error: an expected outage by its reason, everything else with its stack. */
export function errorFields(error: unknown): { reason: string } | { err: unknown } {
  return error instanceof OriginUnavailableError ? { reason: reasonOf(error) } : { err: error };
}
