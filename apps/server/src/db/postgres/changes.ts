import { randomUUID } from 'node:crypto';
import { createAppendListeners } from '../append-listeners.ts';
import type { ToldOf } from '../repositories.ts';

/** The channel on which processes tell each other of their writes. */
export const CHANNEL = 'mds_changes';

/**
 * What a transaction changed: rows that answers are made of (`versions`), asset records, and what is told of it (`events`). Of asset
 * records nobody else is told: each region writes some twice a second, and who answers with them asks for their counter.
 */
export interface Change {
  versions: boolean;
  assets: boolean;
  events: boolean;
}

/** What this process knows of writes, its own and those that it is told of. */
export interface Changes {
  /** See `Versions.stamp`. */
  stamp(of: ToldOf): number;
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
  let assetStamp = 0;
  let hearsOthers = false;

  const written = ({ versions, assets, events }: Change) => {
    if (versions) stamp += 1;
    if (assets) assetStamp += 1;
    if (events) listeners.wake();
  };
  return {
    stamp(of) {
      if (!hearsOthers) stamp += 1;
      return of === 'assets' ? stamp + assetStamp : stamp;
    },

    written,

    told(payload) {
      const [sender, what = ''] = payload.split(' ');
      if (sender !== id) written({ versions: what.includes('v'), assets: false, events: what.includes('e') });
    },

    listening(isListening) {
      hearsOthers = isListening;
      written({ versions: true, assets: false, events: true });
    },

    payloadOf: ({ versions, events }) => `${id} ${versions ? 'v' : ''}${events ? 'e' : ''}`,

    onAppended: listeners.add,
  };
}
