import type { Event } from '@mds/contract';
import type { EventsOptions } from './events.ts';

/** Receives changes of one media object. */
export interface MediaListener {
  /** The media object changed, or must be requested again because the connection opened or was lost. */
  onChange(): void;
  /** Progress of the processing, from 0 to 1. */
  onProgress(progress: number): void;
}

/** The subscription of one listener. */
export interface MediaSubscription {
  /** Whether changes arrive now; if not, the caller must poll. */
  isLive(): boolean;
  close(): void;
}

/** Reports changes of media over one connection for all listeners. */
export interface MediaWatch {
  subscribe(id: string, listener: MediaListener): MediaSubscription;
}

/**
 * Makes a watch. It is connected while there are listeners. If the service has no events or refuses them, listeners get nothing and must
 * keep polling.
 * @param follow the stream of events
 */
export function createMediaWatch(follow: (options: EventsOptions) => AsyncIterable<Event>): MediaWatch {
  const listeners = new Map<MediaListener, string>();
  let connection: { stop: AbortController; live: boolean } | null = null;

  const notify = (event: Event) => {
    // Events of regions and caches belong to no media object.
    if (!('id' in event.data)) return;
    for (const [listener, id] of listeners) {
      if (event.data.id !== id) continue;
      if (event.type === 'media.progress') listener.onProgress(event.data.progress);
      else listener.onChange();
    }
  };

  const connect = () => {
    const mine = { stop: new AbortController(), live: false };
    const setLive = (live: boolean) => {
      if (mine.live === live) return;
      mine.live = live;
      for (const listener of listeners.keys()) listener.onChange();
    };
    const run = async () => {
      const events = follow({
        signal: mine.stop.signal,
        onOpen: () => setLive(true),
        onReconnect: () => setLive(false),
      });
      for await (const event of events) notify(event);
    };
    // Not an error for the listeners: an older service has no events, and polling gives the same result.
    run()
      .catch(() => undefined)
      .finally(() => setLive(false));
    return mine;
  };

  return {
    subscribe(id, listener) {
      listeners.set(listener, id);
      connection ??= connect();
      return {
        isLive: () => connection?.live === true,
        close() {
          listeners.delete(listener);
          if (listeners.size > 0) return;
          connection?.stop.abort();
          connection = null;
        },
      };
    },
  };
}
