import type { Event } from '@mds/contract';
import type { EventsOptions } from './events.ts';

/** What one waiter hears about its media object. */
export interface MediaListener {
  /** Something happened to the media object, or became worth asking for: the connection stands, or was lost. */
  onChange(): void;
  /** How far its processing is, from 0 to 1. */
  onProgress(progress: number): void;
}

/** One waiter's part in the stream. */
export interface MediaSubscription {
  /** Whether what happens to the media object is told at this moment; where it is not, it has to be asked for. */
  isLive(): boolean;
  close(): void;
}

/** Tells about media, over one connection however many are waited for. */
export interface MediaWatch {
  subscribe(id: string, listener: MediaListener): MediaSubscription;
}

/**
 * Makes a watch. It is connected while somebody listens. Where the service has no events, or refuses them, nobody is told
 * anything, and whoever waits keeps asking.
 * @param follow the stream of events
 */
export function createMediaWatch(follow: (options: EventsOptions) => AsyncIterable<Event>): MediaWatch {
  const listeners = new Map<MediaListener, string>();
  let connection: { stop: AbortController; live: boolean } | null = null;

  const tell = (event: Event) => {
    // Of a region, or of the caches: nobody who waits for a media object waits for that.
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
      for await (const event of events) tell(event);
    };
    // Not an error of those who wait: an older service has no events, and asking has the same answer.
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
