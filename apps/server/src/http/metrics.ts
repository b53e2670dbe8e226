import type { Express } from 'express';
import type { DeliveryStats } from '../delivery/delivery.ts';
import type { QueueCounts } from '../jobs/job-queue.ts';
import type { UploadFigures } from '../uploads/uploads.ts';
import { makeAnswer, sendAnswer } from './answer.ts';
import { refuseOtherMethods } from './methods.ts';
import type { MetricsRegistry } from './metrics-registry.ts';
import { createRequestFigures, type RequestFigures } from './request-figures.ts';

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

/** The service's figures in Prometheus's text format, in a registry of this app's own. */
export interface Metrics {
  /** `route` is a template of the contract or a short name, never a path that a caller chose. */
  readonly requests: RequestFigures;
  render(): Promise<{ text: string; contentType: string }>;
}

/** Makes {@link Metrics}. What writes them down is not loaded before somebody asks: it is a tenth of what a start loads. */
export function createMetrics(sources: MetricSources): Metrics {
  const requests = createRequestFigures();
  let registry: MetricsRegistry | undefined;
  return {
    requests,
    async render() {
      const { createMetricsRegistry } = await import('./metrics-registry.ts');
      registry ??= createMetricsRegistry(sources, requests);
      return registry.render();
    },
  };
}

/** Mounts `/metrics`. */
export function mountMetrics(app: Express, metrics: Metrics): void {
  app.get('/metrics', async (req, res) => {
    const { text, contentType } = await metrics.render();
    sendAnswer(req, res, makeAnswer({ body: text, contentType, cacheControl: 'no-store' }));
  });
  app.all('/metrics', refuseOtherMethods(['GET']));
}
