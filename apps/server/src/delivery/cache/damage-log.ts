import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { type ExpectedObject, ObjectDamagedError } from '../verified-body.ts';

/** Counts and logs damaged objects, and refuses further requests for them for a moment. */
export interface DamageLog {
  /** Logs damage once for all requests that meet it at the same time. Returns its argument, whatever it is. */
  report(error: unknown): unknown;
  /** Logs damage that a further read of the origin repairs, so that no request fails because of it. */
  reportRepaired(error: ObjectDamagedError): void;
  /** @throws ObjectDamagedError if the object, or this piece of it, was found damaged a moment ago */
  refuse(object: ExpectedObject, piece: number): void;
  readonly count: number;
}

/** A damaged object is not read again for this time, so that requests for it cannot keep the disk and the log busy. */
const DAMAGED_MS = 1_000;

/** Makes a {@link DamageLog}. */
export function createDamageLog(logger: Pick<Logger, 'error'>): DamageLog {
  const damaged = new LRUCache<string, ObjectDamagedError>({ max: 1000, ttl: DAMAGED_MS });
  let count = 0;

  return {
    report(error) {
      if (!(error instanceof ObjectDamagedError)) return error;
      const place = placeOf(error.object, error.piece);
      if (damaged.has(place)) return error;
      count += 1;
      damaged.set(place, error);
      logger.error(
        { event: 'object_corrupt', objectKey: error.object.key, err: error },
        `${error.message} It is not delivered. Have it made again: \`mds doctor --repair\`.`,
      );
      return error;
    },

    reportRepaired(error) {
      count += 1;
      logger.error(
        { event: 'cache_corrupt', objectKey: error.object.key, err: error },
        `${error.message} It is not delivered, but fetched again.`,
      );
    },

    refuse(object, piece) {
      const known = damaged.get(placeOf(object, null)) ?? damaged.get(placeOf(object, piece));
      if (known) throw known;
    },

    get count() {
      return count;
    },
  };
}

/** Names a damaged object, or one damaged piece of it. */
const placeOf = ({ key, sha256 }: ExpectedObject, piece: number | null) => `${key} ${sha256} ${piece}`;
