import { SourceError } from './source-error.ts';

/** How long a source may be idle. */
export interface IdleLimit {
  /** Longest wait for {@link IdleLimit.minBytes}, in milliseconds. Our own processing time does not count. */
  idleMs: number;
  /** Bytes that must arrive in that time: an occasional byte does not keep a connection open. */
  minBytes: number;
}

/**
 * Passes a body on as long as its source keeps sending.
 * @throws SourceError `source_timeout` if it trickles or stops
 */
export async function* limitIdleTime(
  body: AsyncIterator<Uint8Array>,
  { idleMs, minBytes }: IdleLimit,
): AsyncGenerator<Uint8Array> {
  let leftMs = idleMs;
  let bytes = 0;
  for (;;) {
    const beganMs = performance.now();
    const next = await within(body.next(), leftMs, idleMs);
    if (next.done) return;
    leftMs -= performance.now() - beganMs;
    bytes += next.value.length;
    if (bytes >= minBytes) {
      leftMs = idleMs;
      bytes = 0;
    }
    yield next.value;
  }
}

async function within<T>(work: Promise<T>, leftMs: number, idleMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const detail = `The source sent next to nothing for ${idleMs / 1000} seconds.`;
      reject(new SourceError('source_timeout', detail, { retryable: true }));
    }, leftMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    // After a timeout it fails when its connection is closed, and nobody listens any more.
    work.catch(() => undefined);
  }
}
