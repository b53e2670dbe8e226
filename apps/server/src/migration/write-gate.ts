import { AppError } from '../base/app-error.ts';

/** Seconds after which to try again: by then, writes are accepted here or elsewhere. */
const RETRY_AFTER_S = 30;

/** Admits writes, and refuses them while the deployment is being moved. */
export interface WriteGate {
  readonly isClosed: boolean;
  /** Whether the deployment was moved: remaining work is done elsewhere. */
  readonly isClosedForGood: boolean;
  /**
   * Admits a write; the returned function ends it. @param cut ends the write early if it takes too long
   * @throws AppError `unavailable` while the gate is closed, `deployment_moved` after it was closed for good
   */
  enter(cut: () => void): () => void;
  /** Admits no more writes. Resolves when the admitted ones have ended; those that take longer than `drainMs` are cut. */
  close(drainMs?: number): Promise<void>;
  /** Closes the gate for good: writes belong elsewhere from now on, unless {@link open} undoes it. */
  closeForGood(): void;
  open(): void;
}

/** A slow sender must not hold up all others: the bytes of its resumable upload are kept, as when a connection breaks. */
const DRAIN_MS = 20_000;

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
      // A function of its own: two writes may share the same `cut`.
      const own = () => cut();
      inside.add(own);
      return () => {
        inside.delete(own);
        if (inside.size > 0) return;
        const waiters = waiting;
        waiting = [];
        for (const resolve of waiters) resolve();
      };
    },

    async close(drainMs = DRAIN_MS) {
      state = 'closed';
      if (inside.size === 0) return;
      const overdue = setTimeout(() => {
        for (const cut of inside) cut();
      }, drainMs);
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
    'The deployment was moved to another database and storage, and this service accepts no more writes. Continue with the service that was started there; its operator knows the address.',
    // Whose calls are led there in the meantime need not notice.
    { headers: { 'Retry-After': String(RETRY_AFTER_S) } },
  );
}
