import { randomUUID } from 'node:crypto';
import { createAppendListeners } from '../append-listeners.ts';

/** The channel on which processes tell each other of their writes. */
export const CHANNEL = 'mds_changes';

/** What a transaction changed: rows that answers are made of (`versions`), and what is told of it (`events`). */
export interface Change {
  versions: boolean;
  events: boolean;
}

/** What this process knows of writes, its own and those that it is told of. */
export interface Changes {
  /** See `Versions.stamp`. */
  stamp(): number;
  /** A write of this process, before and again after its commit: nobody knows of its moment but the server. */
  written(change: Change): void;
  /** What a notification says; one that this process has sent itself is nothing new. */
  told(payload: string): void;
  /** Whether other processes' writes are heard of. Anything may have happened while they were not. */
  listening(isListening: boolean): void;
  /** What to tell the other processes. */
  payloadOf(change: Change): string;
  onAppended(listener: () => void): () => void;
}

export function createChanges(): Changes {
  const id = randomUUID();
  const listeners = createAppendListeners();
  let stamp = 0;
  let hearsOthers = false;

  const written = ({ versions, events }: Change) => {
    if (versions) stamp += 1;
    if (events) listeners.wake();
  };
  return {
    stamp() {
      if (!hearsOthers) stamp += 1;
      return stamp;
    },

    written,

    told(payload) {
      const [sender, what = ''] = payload.split(' ');
      if (sender !== id) written({ versions: what.includes('v'), events: what.includes('e') });
    },

    listening(isListening) {
      hearsOthers = isListening;
      written({ versions: true, events: true });
    },

    payloadOf: ({ versions, events }) => `${id} ${versions ? 'v' : ''}${events ? 'e' : ''}`,

    onAppended: listeners.add,
  };
}
