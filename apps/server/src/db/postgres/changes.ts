import { randomUUID } from 'node:crypto';
import { type Change, type Changes, createChanges } from '../changes.ts';

/** The channel on which processes announce their writes to each other. */
export const CHANNEL = 'mds_changes';

/**
 * Writes of this process, and those that others announce. Writes to asset records are not announced: each region makes some twice a
 * second, and answers with asset records ask for their counter.
 */
export interface SharedChanges extends Changes {
  /** Takes a notification. One that this process has sent itself is not new. */
  receive(payload: string): void;
  /** Whether announcements of others arrive. While they did not, anything may have happened. */
  listening(isListening: boolean): void;
  /** Returns the notification for the other processes. */
  payloadOf(change: Change): string;
}

export function createSharedChanges(): SharedChanges {
  const id = randomUUID();
  const changes = createChanges();
  const everything = { versions: true, assets: false, events: true };
  let isHearing = false;
  return {
    ...changes,

    stamp(scope) {
      if (!isHearing) changes.note({ ...everything, events: false });
      return changes.stamp(scope);
    },

    receive(payload) {
      const [sender, what = ''] = payload.split(' ');
      if (sender !== id) changes.note({ versions: what.includes('v'), assets: false, events: what.includes('e') });
    },

    listening(isListening) {
      isHearing = isListening;
      changes.note(everything);
    },

    payloadOf: ({ versions, events }) => `${id} ${versions ? 'v' : ''}${events ? 'e' : ''}`,
  };
}
