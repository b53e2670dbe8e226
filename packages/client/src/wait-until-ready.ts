import type { MediaDetail } from '@mds/contract';
import { MediaFailedError, TimeoutError } from './errors.ts';
import { sleep } from './sleep.ts';
import type { RequestOptions } from './transport.ts';

/** How to wait for a medium. */
export interface WaitOptions extends RequestOptions {
  /** Milliseconds after which waiting ends with a {@link TimeoutError}; for ever by default. The medium is not affected. */
  timeoutMs?: number | undefined;
  /** Called with every answer, the last one included. */
  onUpdate?: ((media: MediaDetail) => void) | undefined;
}

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Polls until a medium is ready. A state that is not known here, a newer service's, counts as being on its way.
 * @param get asks once
 */
export async function waitUntilReady(
  get: (signal: AbortSignal | undefined) => Promise<MediaDetail>,
  id: string,
  { signal, timeoutMs, onUpdate }: WaitOptions,
): Promise<MediaDetail> {
  const expiry = new AbortController();
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          expiry.abort(new TimeoutError(`${id} was not ready within ${timeoutMs} ms`, timeoutMs));
        }, timeoutMs);
  const either = signal ? AbortSignal.any([signal, expiry.signal]) : expiry.signal;
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 1.5)) {
      const media = await get(either);
      onUpdate?.(media);
      if (media.status === 'ready') return media;
      if (media.status === 'failed') throw new MediaFailedError(media);
      // A quarter of jitter, so that many who wait do not ask in step.
      await sleep(pauseMs * (1 + Math.random() / 4), either);
    }
  } finally {
    clearTimeout(timer);
  }
}
