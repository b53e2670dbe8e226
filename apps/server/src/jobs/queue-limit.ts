import { AppError } from '../base/app-error.ts';
import type { MediaRepository } from '../db/media-repository.ts';

/** How long a sender should wait before it tries again: media take seconds, and a full queue empties for hours. */
const RETRY_AFTER_S = 30;
/** A queue that is full is looked at this often, so that asking costs nothing where many ask; any other as often as it may be full. */
const LOOK_AGAIN_MS = 1_000;
/** Media come back into the queue by retries, too, of which nobody tells: so long may a count be believed. */
const BELIEVE_MS = 60_000;
/** And where other processes queue media, too, of which they do not tell. */
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

/** Keeps projects from queueing more than can be worked off. */
export interface QueueLimit {
  /**
   * To be asked before a body is read. What is being received at that moment still comes on top, which admission bounds.
   * @throws AppError `overloaded` with `Retry-After`
   */
  requireRoom(projectId: string): Promise<void>;
  /** Tells that a media object was queued. */
  queued(projectId: string): void;
}

/** {@link QueueLimit} that counts rows only where the queue may be full by what it knows. */
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
