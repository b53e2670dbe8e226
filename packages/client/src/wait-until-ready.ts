import type { MediaDetail, MediaStatus } from '@mds/contract';
import { MediaFailedError, TimeoutError } from './errors.ts';
import type { MediaSubscription, MediaWatch } from './media-watch.ts';
import type { RequestOptions } from './transport.ts';

/** How far a media object is. */
export interface MediaProgress {
  status: MediaStatus;
  /** Share of the processing that is done, from 0 to 1; null where it is not processed now, or the service does not say. */
  progress: number | null;
}

/** How to wait for a media object. */
export interface WaitOptions extends RequestOptions {
  /** Milliseconds after which waiting ends with a {@link TimeoutError}; for ever by default. The media object is not affected. */
  timeoutMs?: number | undefined;
  /** Called with every answer, the last one included. */
  onUpdate?: ((media: MediaDetail) => void) | undefined;
  /** Called whenever the state or the progress has changed, between answers too where the service has events. */
  onProgress?: ((progress: MediaProgress) => void) | undefined;
  /**
   * Wait on while renditions of a ready media object are pending, as they are after a `retry` of one some of whose renditions
   * failed; default false: ready is ready.
   */
  renditions?: boolean | undefined;
}

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
/** Between answers while events come. They say when to ask; this is for one that never came. */
const LIVE_PAUSE_MS = 15_000;

/**
 * Waits until a media object is ready: asks when an event says that something happened, and without events ever less often. A
 * state that is not known here, a newer service's, counts as being on its way.
 * @param get asks once
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
      // Only now: for what is ready already no connection is worth making. It opening rings, so that what happened
      // between the answer and then is not missed.
      subscription ??= watch.subscribe(id, {
        onChange: bell.ring,
        onProgress: (progress) => report({ status: 'processing', progress }),
      });
      const wait = subscription.isLive() ? LIVE_PAUSE_MS : pauseMs;
      // A quarter of jitter, so that many who wait do not ask in step.
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

/** Something to wait for that may also happen before anybody waits: one ring ends one wait. */
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
