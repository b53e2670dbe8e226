import { AppError } from '../base/app-error.ts';
import type { MediaRepository } from '../db/media-repository.ts';

/** Seconds after which a sender should try again: media take seconds, but a full queue takes hours to empty. */
const RETRY_AFTER_S = 30;
/** A full queue is counted at most this often, so that many requests cost nothing. Any other is counted as soon as it may be full. */
const LOOK_AGAIN_MS = 1_000;
/** Retries queue media too, without a notice: a count is believed for this long. */
const BELIEVE_MS = 60_000;
/** The same if other processes queue media, also without a notice. */
const BELIEVE_SHARED_MS = 5_000;

export interface QueueLimitParts {
  media: Pick<MediaRepository, 'countQueued'>;
  /** Media of one project that may wait to be processed. */
  maxQueued: number;
  /** Whether other processes queue media, too. */
  shared?: boolean;
  /** Milliseconds of a monotonic clock. */
  nowMs?: () => number;
}

/** Keeps a project from queueing more media than can be processed. */
export interface QueueLimit {
  /**
   * Called before a body is read. Bodies that are arriving at that moment come on top; admission bounds them.
   * @throws AppError `overloaded` with `Retry-After`
   */
  requireRoom(projectId: string): Promise<void>;
  /** Counts a media object that was queued. */
  queued(projectId: string): void;
}

/** Creates a {@link QueueLimit} that counts rows only if its estimate allows that the queue is full. */
export function createQueueLimit(parts: QueueLimitParts): QueueLimit {
  const { media, maxQueued, shared = false, nowMs = () => performance.now() } = parts;
  const believeMs = shared ? BELIEVE_SHARED_MS : BELIEVE_MS;
  const known = new Map<string, { atMost: number; countedAtMs: number }>();

  const atMostQueued = async (projectId: string): Promise<number> => {
    const last = known.get(projectId);
    const age = last === undefined ? Number.POSITIVE_INFINITY : nowMs() - last.countedAtMs;
    if (last !== undefined && age < (last.atMost < maxQueued ? believeMs : LOOK_AGAIN_MS)) return last.atMost;
    const atMost = await media.countQueued(projectId);
    known.set(projectId, { atMost, countedAtMs: nowMs() });
    return atMost;
  };

  return {
    async requireRoom(projectId) {
      if ((await atMostQueued(projectId)) < maxQueued) return;
      throw new AppError(
        'overloaded',
        `${maxQueued} media of this project wait to be processed, and no more may (MDS_MAX_QUEUED_JOBS). Send it again in ${RETRY_AFTER_S} seconds.`,
        { headers: { 'Retry-After': String(RETRY_AFTER_S) } },
      );
    },

    queued(projectId) {
      const last = known.get(projectId);
      if (last !== undefined) last.atMost += 1;
    },
  };
}
