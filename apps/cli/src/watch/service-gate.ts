import { setTimeout as delay } from 'node:timers/promises';

/** Holds all requests back while the service is away or busy, and lets them try again after growing pauses. */
export interface ServiceGate {
  /** Waits while the gate is closed. @throws the signal's reason */
  waitUntilOpen(signal: AbortSignal): Promise<void>;
  /** Closes the gate for a while: longer each time, and at least as long as the service asks for. */
  close(reason: string, retryAfterMs: number | null): void;
  /** Opens the gate: the service has answered normally. */
  open(): void;
}

/** Reports of the gate. */
export interface GateEvents {
  onClose(reason: string): void;
  onOpen(downMs: number): void;
}

const BASE_MS = 500;
const MAX_MS = 30_000;

/** Makes a {@link ServiceGate}, open. */
export function createServiceGate({ onClose, onOpen }: GateEvents): ServiceGate {
  let sinceMs: number | null = null;
  let failures = 0;
  let untilMs = 0;
  return {
    async waitUntilOpen(signal) {
      for (let leftMs = untilMs - performance.now(); leftMs > 0; leftMs = untilMs - performance.now()) {
        await delay(leftMs, undefined, { signal });
      }
    },
    close(reason, retryAfterMs) {
      const now = performance.now();
      // Several requests were running when the service failed: count one failure.
      if (untilMs > now) return;
      failures++;
      const backoffMs = Math.min(MAX_MS, BASE_MS * 2 ** (failures - 1));
      // Jitter, because many watchers retry at one service.
      untilMs = now + Math.max(retryAfterMs ?? 0, backoffMs * (0.5 + Math.random() / 2));
      if (sinceMs !== null) return;
      sinceMs = now;
      onClose(reason);
    },
    open() {
      failures = 0;
      if (sinceMs === null) return;
      onOpen(performance.now() - sinceMs);
      sinceMs = null;
    },
  };
}
