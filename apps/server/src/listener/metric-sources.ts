import type { QueueCounts } from '../db/job-queue.ts';
import type { DeliveryStats } from '../delivery/delivery.ts';
import type { UploadStats } from '../uploads/uploads.ts';

/** Sources of figures, read for each request of the metrics. Null: not part of this process. */
export interface MetricSources {
  deliveries: (() => DeliveryStats) | null;
  queue: (() => Promise<QueueCounts>) | null;
  workers: (() => Promise<number>) | null;
  ingest:
    | (() => { created: number; existing: number; receivedBytes: number; refused: Partial<Record<string, number>> })
    | null;
  /** State of the points of presence, from the process that receives their reports. */
  regions?: () => Promise<readonly { code: string; status: string | null; nodes: readonly { alive: boolean }[] }[]>;
  uploads?: () => Promise<UploadStats>;
  /** Only of a point of presence without an API. */
  edge?: () => EdgeFigures;
}

/** State of a remote point of presence and of its origin. */
export interface EdgeFigures {
  /** Whether the origin answers, and accepts this node. */
  originUp: boolean;
  /** How long ago every event had last been received; 0: every event has been. */
  eventsLagMs: number;
  /** Delivered paths not yet reported to the origin. */
  unreported: number;
  purges: number;
  /** Answers of the read API by cache result. */
  reads: { hits: number; misses: number; stale: number; unavailable: number };
}
