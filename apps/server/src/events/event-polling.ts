import type { EventRepository } from '../db/event-repository.ts';

/** Reads after each event that is stored, and regularly: notices of other processes are lost if the connection breaks. */
export interface EventPolling {
  start(): void;
  /** Reads now. If a read is under way, another one follows it, because this one may have begun too early. */
  read(): void;
  /** Ends it, and waits for the read under way. */
  stop(): Promise<void>;
}

/**
 * Makes an {@link EventPolling}, which runs one read at a time.
 * @param parts.pollMs between two reads without a notice, in milliseconds
 * @param parts.onFailure called if a read fails; the next one tries again
 */
export function createEventPolling(parts: {
  events: Pick<EventRepository, 'onAppended'>;
  pollMs: number;
  read: () => Promise<void>;
  onFailure: (error: unknown) => void;
}): EventPolling {
  let reading: Promise<void> | null = null;
  let readAgain = false;
  let timer: NodeJS.Timeout | undefined;
  let unsubscribe: () => void = () => undefined;
  let stopped = false;

  const read = (): void => {
    if (stopped) return;
    if (reading !== null) {
      readAgain = true;
      return;
    }
    reading = parts
      .read()
      .catch(parts.onFailure)
      .finally(() => {
        reading = null;
        if (!readAgain) return;
        readAgain = false;
        read();
      });
  };

  return {
    start() {
      unsubscribe = parts.events.onAppended(read);
      timer = setInterval(read, parts.pollMs).unref();
    },
    read,
    async stop() {
      stopped = true;
      clearInterval(timer);
      unsubscribe();
      await reading;
    },
  };
}
