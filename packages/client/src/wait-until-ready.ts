import type { MediaDetail, MediaStatus } from '@mds/contract';
import { MediaFailedError, TimeoutError } from './errors.ts';
import type { MediaSubscription, MediaWatch } from './media-watch.ts';
import type { RequestOptions } from './transport.ts';

/** Progress of a media object. */
export interface MediaProgress {
  status: MediaStatus;
  /** Share of the processing that is done, from 0 to 1; null if it is not being processed, or if unknown. */
  progress: number | null;
}

/** Options of a wait for a media object. */
export interface WaitOptions extends RequestOptions {
  /** Milliseconds after which waiting ends with a {@link TimeoutError}; by default there is no limit. The media object is not affected. */
  timeoutMs?: number | undefined;
  /** Called with every answer, including the last. */
  onUpdate?: ((media: MediaDetail) => void) | undefined;
  /** Called whenever the status or the progress changes; with events, between answers too. */
  onProgress?: ((progress: MediaProgress) => void) | undefined;
  /**
   * Wait also for pending renditions of a ready media object, as after a `retry` of failed renditions; default false.
   */
  renditions?: boolean | undefined;
}

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
/** Pause between requests while events arrive, in case an event is lost. */
const LIVE_PAUSE_MS = 15_000;

/**
 * Waits until a media object is ready. Requests it after each event, or less and less often without events. An unknown status, of a newer
 * service, counts as not ready yet.
 * @param get requests the media object once
 */
export async function waitUntilReady(
  get: (signal: AbortSignal | undefined) => Promise<MediaDetail>,
  watch: MediaWatch,
  id: string,
  { signal, timeoutMs, onUpdate, onProgress, renditions }: WaitOptions,
): Promise<MediaDetail> {
  const expiry = new AbortController();
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          expiry.abort(new TimeoutError(`${id} was not ready within ${timeoutMs} ms`, timeoutMs));
        }, timeoutMs);
  const either = signal ? AbortSignal.any([signal, expiry.signal]) : expiry.signal;
  const report = changesOnly(onProgress);
  const bell = createBell();
  let status: MediaStatus = 'queued';
  let subscription: MediaSubscription | undefined;
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 1.5)) {
      const media = await get(either);
      status = media.status;
      onUpdate?.(media);
      report({ status, progress: media.progress ?? null });
      if (status === 'failed') throw new MediaFailedError(media);
      if (status === 'ready' && !(renditions && media.renditions.some(({ state }) => state === 'pending')))
        return media;
      // Subscribe late: a media object that is already ready needs no connection. The opened connection rings the bell, so a change
      // since the answer is not missed.
      subscription ??= watch.subscribe(id, {
        onChange: bell.ring,
        onProgress: (progress) => report({ status: 'processing', progress }),
      });
      const wait = subscription.isLive() ? LIVE_PAUSE_MS : pauseMs;
      // Up to a quarter of jitter, so that many waiting clients do not poll in step.
      await bell.wait(wait * (1 + Math.random() / 4), either);
    }
  } finally {
    clearTimeout(timer);
    subscription?.close();
  }
}

function changesOnly(onProgress: WaitOptions['onProgress']): (progress: MediaProgress) => void {
  let last: MediaProgress | null = null;
  return (next) => {
    if (last?.status === next.status && last.progress === next.progress) return;
    last = next;
    onProgress?.(next);
  };
}

/** A signal that is remembered if nobody waits yet: one ring ends one wait. */
function createBell() {
  let rung = false;
  let wake: (() => void) | null = null;
  return {
    ring() {
      rung = true;
      wake?.();
    },
    /** @throws the signal's reason */
    wait(ms: number, signal: AbortSignal): Promise<void> {
      signal.throwIfAborted();
      return new Promise((resolve, reject) => {
        const end = () => {
          clearTimeout(timer);
          signal.removeEventListener('abort', end);
          wake = null;
          rung = false;
          if (signal.aborted) reject(signal.reason);
          else resolve();
        };
        const timer = setTimeout(end, ms);
        signal.addEventListener('abort', end);
        wake = end;
        if (rung) end();
      });
    },
  };
}
