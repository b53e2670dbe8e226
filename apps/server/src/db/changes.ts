/**
 * The data that a cached answer shows: asset records, which every delivering region writes twice a second, or all
 * other data. An answer with asset records may also show other data.
 */
export type VersionScope = 'assets' | 'others';

/** The changes of a transaction: rows that answers show (`versions`), asset records, and events. */
export interface Change {
  versions: boolean;
  assets: boolean;
  events: boolean;
}

/** Writes that this process knows of. */
export interface Changes {
  /** A number for each scope that changes with every write. */
  stamp(scope: VersionScope): number;
  /** Notes a write, at its commit. */
  note(change: Change): void;
  /** Calls back soon after events were written. @returns stops it */
  onAppended(listener: () => void): () => void;
}

export function createChanges(): Changes {
  const listeners = new Set<() => void>();
  let isWaking = false;
  let stamp = 0;
  let assetStamp = 0;

  /** Calls each listener soon, and once if it is asked for again before that. */
  const wake = () => {
    if (isWaking || listeners.size === 0) return;
    isWaking = true;
    setImmediate(() => {
      isWaking = false;
      for (const listener of listeners) listener();
    });
  };

  return {
    stamp: (scope) => (scope === 'assets' ? stamp + assetStamp : stamp),

    note({ versions, assets, events }) {
      if (versions) stamp += 1;
      if (assets) assetStamp += 1;
      if (events) wake();
    },

    onAppended(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
