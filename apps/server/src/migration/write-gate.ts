import { AppError } from '../base/app-error.ts';

/** Seconds after which to ask again: writes are taken again by then, here or elsewhere. */
const RETRY_AFTER_S = 30;

/** Lets those in who write, and keeps them out while the deployment is being moved. */
export interface WriteGate {
  readonly isClosed: boolean;
  /** Whether the deployment was moved: what is still to be done is done elsewhere. */
  readonly isClosedForGood: boolean;
  /**
   * Counts in one who writes; the function counts it out again. @param cut ends what it does, where that takes too long
   * @throws AppError `unavailable` while the gate is closed, `deployment_moved` once it is for good
   */
  enter(cut: () => void): () => void;
  /** Lets nobody in any more. Resolves when those who are in have left; who takes longer than `patienceMs` is cut. */
  close(patienceMs?: number): Promise<void>;
  /** The gate stays closed: what is written is written elsewhere from now on, unless {@link open} takes it back. */
  closeForGood(): void;
  open(): void;
}

/** A slow sender must not keep all others waiting: what arrived of a resumable upload is kept, as when a connection breaks. */
const PATIENCE_MS = 20_000;

export function createWriteGate(): WriteGate {
  let state: 'open' | 'closed' | 'closed for good' = 'open';
  const inside = new Set<() => void>();
  let waiting: (() => void)[] = [];
  return {
    get isClosed() {
      return state !== 'open';
    },

    get isClosedForGood() {
      return state === 'closed for good';
    },

    enter(cut) {
      if (state !== 'open') throw state === 'closed' ? beingMoved() : moved();
      // Its own, as two may be cut in the same way.
      const own = () => cut();
      inside.add(own);
      return () => {
        inside.delete(own);
        if (inside.size > 0) return;
        const told = waiting;
        waiting = [];
        for (const tell of told) tell();
      };
    },

    async close(patienceMs = PATIENCE_MS) {
      state = 'closed';
      if (inside.size === 0) return;
      const overdue = setTimeout(() => {
        for (const cut of inside) cut();
      }, patienceMs);
      await new Promise<void>((resolve) => waiting.push(resolve));
      clearTimeout(overdue);
    },

    closeForGood() {
      state = 'closed for good';
    },

    open() {
      state = 'open';
    },
  };
}

function beingMoved(): AppError {
  return new AppError(
    'unavailable',
    'The deployment is being moved to another database and storage. Until that is over it can only be read; ask again then.',
    { headers: { 'Retry-After': String(RETRY_AFTER_S) } },
  );
}

function moved(): AppError {
  return new AppError(
    'deployment_moved',
    'The deployment was moved to another database and storage, and this service takes no writes any more. Go on with the service that was started there; its operator knows the address.',
    // Whose calls are led there in the meantime need not notice.
    { headers: { 'Retry-After': String(RETRY_AFTER_S) } },
  );
}
