import { setTimeout as delay } from 'node:timers/promises';

/** Keeps everybody waiting while the service is away or busy, and finds out when it is back. */
export interface ServiceGate {
  /** Waits while it is shut. @throws the signal's reason */
  pass(signal: AbortSignal): Promise<void>;
  /** Shuts it for a while, longer each time; at least as long as the service asks for. */
  shut(reason: string, retryAfterMs: number | null): void;
  /** The service has answered as it should. */
  answered(): void;
}

/** What people are told. */
export interface GateEvents {
  onShut(reason: string): void;
  onOpen(downMs: number): void;
}

const BASE_MS = 500;
const MAX_MS = 30_000;

/** Makes a {@link ServiceGate}, open. */
export function createServiceGate({ onShut, onOpen }: GateEvents): ServiceGate {
  let sinceMs: number | null = null;
  let failures = 0;
  let untilMs = 0;
  return {
    async pass(signal) {
      for (let leftMs = untilMs - performance.now(); leftMs > 0; leftMs = untilMs - performance.now()) {
        await delay(leftMs, undefined, { signal });
      }
    },
    shut(reason, retryAfterMs) {
      const now = performance.now();
      // Several were on their way when it failed: one failure.
      if (untilMs > now) return;
      failures++;
      const backoffMs = Math.min(MAX_MS, BASE_MS * 2 ** (failures - 1));
      // Jitter: many watchers come back to one service.
      untilMs = now + Math.max(retryAfterMs ?? 0, backoffMs * (0.5 + Math.random() / 2));
      if (sinceMs !== null) return;
      sinceMs = now;
      onShut(reason);
    },
    answered() {
      failures = 0;
      if (sinceMs === null) return;
      onOpen(performance.now() - sinceMs);
      sinceMs = null;
    },
  };
}
