import { failureOf, S3Failure } from './s3-failure.ts';

/** Distinguishes a storage that hangs from a slow one, so that no request waits for the former. */
export interface SilenceWatch {
  /**
   * Sends a request. Any answer, errors included, shows that the storage does not hang.
   * @param request as in `PutObject`
   * @param send its signal ends it if the storage is found to hang
   * @throws S3Failure `Silent` if the storage hangs, at once while that is known; else what `send` throws
   */
  during<T>(request: string, send: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Calls `cut` if the storage is found to hang, unless the returned function was called before. */
  onSilence(cut: () => void): () => void;
  close(): void;
}

/** The part of the allowed silence after which the storage is probed; the rest is for the answer to the probe. */
const DOUBT_SHARE = 1 / 3;
/** Between two probes of a storage that hangs. */
const PROBE_AGAIN_MS = 1_000;

/**
 * {@link SilenceWatch}. No time limit of a request fits both a storage that hangs and one that is slow, or behind a narrow line. So while
 * requests wait and none is answered, a tiny probe is sent beside them. If it is not answered either, all requests end. From then on
 * the storage is probed until it answers.
 * @param parts.silentMs how long a storage may answer no request while at least one waits
 * @param parts.probe resolves with whether any answer came; uses a connection of its own, because old ones may lead nowhere
 * @param parts.onChange called when the storage is found to hang, and when it answers again
 */
export function createSilenceWatch(parts: {
  silentMs: number;
  probe: (signal: AbortSignal) => Promise<boolean>;
  onChange: (silent: boolean) => void;
}): SilenceWatch {
  const { silentMs, probe, onChange } = parts;
  const doubtMs = Math.round(silentMs * DOUBT_SHARE);
  const waiting = new Set<() => void>();
  let probing = new AbortController();
  let closed = false;
  let silent = false;
  let heardAt = 0;
  let watching = false;
  let timer: NodeJS.Timeout | undefined;

  const setSilent = (next: boolean) => {
    if (silent === next) return;
    silent = next;
    onChange(silent);
  };
  const noteAnswer = () => {
    heardAt = performance.now();
    setSilent(false);
  };
  /** Whether an answer came in time. */
  const probeInTime = async (): Promise<boolean> => {
    // Node 20 may lose what `AbortSignal.any` makes of `AbortSignal.timeout` before its time is over.
    probing = new AbortController();
    const late = setTimeout(() => probing.abort(), silentMs - doubtMs).unref();
    try {
      return await probe(probing.signal);
    } finally {
      clearTimeout(late);
    }
  };
  const lookIn = (ms: number) => {
    timer = setTimeout(() => void look(), ms).unref();
  };

  const look = async (): Promise<void> => {
    const heardMs = performance.now() - heardAt;
    if (!silent && waiting.size === 0) watching = false;
    else if (!silent && heardMs < doubtMs) lookIn(doubtMs - heardMs);
    else {
      const before = heardAt;
      const answered = await probeInTime();
      if (closed) return;
      if (answered) noteAnswer();
      if (heardAt > before) {
        lookIn(doubtMs);
        return;
      }
      setSilent(true);
      for (const cut of [...waiting]) cut();
      lookIn(PROBE_AGAIN_MS);
    }
  };

  const onSilence: SilenceWatch['onSilence'] = (cut) => {
    const done = () => void waiting.delete(cutOnce);
    const cutOnce = () => {
      done();
      cut();
    };
    waiting.add(cutOnce);
    if (!watching && !closed) {
      // Before this, no request waited for an answer.
      heardAt = performance.now();
      watching = true;
      lookIn(doubtMs);
    }
    return done;
  };

  return {
    async during(request, send) {
      if (silent) throw new S3Failure(request, 'Silent', 0, null);
      const cutting = new AbortController();
      const done = onSilence(() => cutting.abort());
      try {
        const answer = await send(cutting.signal);
        noteAnswer();
        return answer;
      } catch (error) {
        if (cutting.signal.aborted) throw new S3Failure(request, 'Silent', 0, null);
        if (failureOf(error, request).status > 0) noteAnswer();
        throw error;
      } finally {
        done();
      }
    },

    onSilence,

    close() {
      closed = true;
      probing.abort();
      clearTimeout(timer);
    },
  };
}
