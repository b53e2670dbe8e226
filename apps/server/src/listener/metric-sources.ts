import type { QueueCounts } from '../db/job-queue.ts';
import type { DeliveryStats } from '../delivery/delivery.ts';
import type { UploadFigures } from '../uploads/uploads.ts';

/** Where figures that others keep come from; each is read when metrics are asked for. Null: not part of this process. */
export interface MetricSources {
  deliveries: (() => DeliveryStats) | null;
  queue: (() => Promise<QueueCounts>) | null;
  workers: (() => Promise<number>) | null;
  ingest:
    | (() => { created: number; existing: number; receivedBytes: number; refused: Partial<Record<string, number>> })
    | null;
  /** What is known of the points of presence, by whoever takes their reports. */
  regions?: () => Promise<readonly { code: string; status: string | null; nodes: readonly { alive: boolean }[] }[]>;
  uploads?: () => Promise<UploadFigures>;
  /** Of a point of presence without an api alone. */
  edge?: () => EdgeFigures;
}

/** What a point of presence elsewhere has to tell of itself and of its origin. */
export interface EdgeFigures {
  /** Whether the origin answers, and as the origin of this node. */
  originUp: boolean;
  /** Since when it was last known that every event was heard; 0: it is. */
  eventsLagMs: number;
  /** Delivered paths that the origin has not been told of. */
  unreported: number;
  purges: number;
  /** Answers of the read API by how the cache came to them. */
  reads: { hits: number; misses: number; stale: number; unavailable: number };
}
