import { failureOf, S3Failure } from './s3-failure.ts';

/** Tells a storage that hangs from one that takes its time, and lets nobody wait for the former. */
export interface SilenceWatch {
  /**
   * Asks the storage something. Whatever it answers, errors included, shows that it does not hang.
   * @param request as in `PutObject`
   * @param send its signal ends it when the storage turns out to hang
   * @throws S3Failure `Silent` where the storage hangs, at once while that is known; else what `send` throws
   */
  during<T>(request: string, send: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Has `cut` called when the storage turns out to hang, unless the function that it returns was called before. */
  onSilence(cut: () => void): () => void;
  close(): void;
}

/** Of the time that silence may last, the part after which the storage is asked whether it is there; the rest is for its answer. */
const DOUBT_SHARE = 1 / 3;
/** Between two questions to a storage that hangs. */
const ASK_AGAIN_MS = 1_000;

/**
 * {@link SilenceWatch}. No limit of time on a request fits both a storage that hangs and one that is slow, or behind a narrow line.
 * So while somebody waits and nobody is answered, the storage is asked something tiny beside it all. Where no answer comes to that either,
 * everybody is told; from then on it is asked until it answers.
 * @param parts.silentMs how long a storage for which somebody waits may say nothing to anybody
 * @param parts.ask resolves with whether an answer came, whatever it said; on a connection of its own, as old ones may lead nowhere
 * @param parts.onChange told when the storage is found to hang, and when it answers again
 */
export function createSilenceWatch(parts: {
  silentMs: number;
  ask: (signal: AbortSignal) => Promise<boolean>;
  onChange: (silent: boolean) => void;
}): SilenceWatch {
  const { silentMs, ask, onChange } = parts;
  const doubtMs = Math.round(silentMs * DOUBT_SHARE);
  const waiting = new Set<() => void>();
  let asking = new AbortController();
  let closed = false;
  let silent = false;
  let heardAt = 0;
  let watching = false;
  let timer: NodeJS.Timeout | undefined;

  const become = (next: boolean) => {
    if (silent === next) return;
    silent = next;
    onChange(silent);
  };
  const heard = () => {
    heardAt = performance.now();
    become(false);
  };
  /** Whether an answer came in time. */
  const askInTime = async (): Promise<boolean> => {
    // Node 20 may lose what `AbortSignal.any` makes of `AbortSignal.timeout` before its time is over.
    asking = new AbortController();
    const late = setTimeout(() => asking.abort(), silentMs - doubtMs).unref();
    try {
      return await ask(asking.signal);
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
      const answered = await askInTime();
      if (closed) return;
      if (answered) heard();
      if (heardAt > before) {
        lookIn(doubtMs);
        return;
      }
      become(true);
      for (const cut of [...waiting]) cut();
      lookIn(ASK_AGAIN_MS);
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
      // Nobody has waited for anything to hear.
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
        heard();
        return answer;
      } catch (error) {
        if (cutting.signal.aborted) throw new S3Failure(request, 'Silent', 0, null);
        if (failureOf(error, request).status > 0) heard();
        throw error;
      } finally {
        done();
      }
    },

    onSilence,

    close() {
      closed = true;
      asking.abort();
      clearTimeout(timer);
    },
  };
}
