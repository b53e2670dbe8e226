import { type Metric, Registry } from 'prom-client';
import type { MetricSources } from './metric-sources.ts';
import type { FigureLine, RequestFigures } from './request-figures.ts';

/** The metrics of this process. */
export interface MetricsRegistry {
  /** Reads every figure from its source and formats them. */
  render(): Promise<{ text: string; contentType: string }>;
}

/** Makes the registry with the names and meanings of all figures. */
export function createMetricsRegistry(sources: MetricSources, requests: RequestFigures): MetricsRegistry {
  const { deliveries, queue, workers, ingest, uploads, regions, edge } = sources;
  return {
    async render() {
      const read = await Promise.all([
        readFrom(processFigures, processReadings),
        readFrom(deliveries, deliveryReadings),
        readFrom(queue, queueReadings),
        readFrom(workers, workerReadings),
        readFrom(ingest, ingestReadings),
        readFrom(uploads, uploadReadings),
        readFrom(regions, regionReadings),
        readFrom(edge, edgeReadings),
      ]);
      const registry = new Registry();
      for (const reading of [...requestReadings(requests), ...read.flat()]) {
        const metric = { name: reading.name, get: async () => reading };
        // The registry uses only `name` and `get` of a metric, but its type demands one of prom-client's classes.
        registry.registerMetric(metric as unknown as Metric);
      }
      return { text: await registry.metrics(), contentType: registry.contentType };
    },
  };
}

/** A metric and its current values. */
interface Reading {
  name: string;
  help: string;
  type: 'counter' | 'gauge' | 'histogram';
  values: FigureLine[];
}

/** The figures that a source returns. */
type Figures<Source extends keyof MetricSources> = Awaited<ReturnType<NonNullable<MetricSources[Source]>>>;

/** Reads a source once for all of its metrics. Without the source there are none. */
async function readFrom<T>(
  source: (() => T | Promise<T>) | null | undefined,
  readingsOf: (figures: T) => Reading[],
): Promise<Reading[]> {
  return source ? readingsOf(await source()) : [];
}

function requestReadings(requests: RequestFigures): Reading[] {
  const durations = 'mds_http_request_duration_seconds';
  return [
    counter('mds_http_requests_total', 'Answered HTTP requests.', requests.totals()),
    {
      name: durations,
      help: "Time from a request's head to the end of its answer.",
      type: 'histogram',
      values: requests.durations(durations),
    },
  ];
}

function processFigures() {
  return { memoryBytes: process.memoryUsage.rss(), uptimeS: process.uptime() };
}

function processReadings({ memoryBytes, uptimeS }: ReturnType<typeof processFigures>): Reading[] {
  return [
    gauge('mds_process_resident_memory_bytes', 'Resident memory of this process.', memoryBytes),
    gauge('mds_process_uptime_seconds', 'Time since this process started.', uptimeS),
  ];
}

function deliveryReadings(figures: Figures<'deliveries'>): Reading[] {
  const { hits, misses, stale, unavailable, collapsed, bytesSent, storeReads, damagedObjects } = figures;
  const held = { memory: figures.memoryBytes, disk: figures.diskBytes };
  const evictions = { memory: figures.memoryEvictions, disk: figures.diskEvictions };
  return [
    counter('mds_deliveries_total', 'Deliveries by how the cache answered.', by('cache', { hit: hits, miss: misses })),
    counter('mds_deliveries_stale_total', 'Out-of-date deliveries because the origin did not answer.', stale),
    counter(
      'mds_deliveries_unavailable_total',
      'Requests refused because of an outage of what they need.',
      unavailable,
    ),
    counter('mds_deliveries_collapsed_total', 'Misses that shared the read of another one.', collapsed),
    counter('mds_delivered_bytes_total', 'Bytes of bodies handed over to clients.', bytesSent),
    counter('mds_origin_reads_total', 'Reads of the object store, or of the origin of an edge.', storeReads),
    counter('mds_damaged_objects_total', 'Objects or pieces found missing or damaged.', damagedObjects),
    gauge('mds_cache_bytes', 'Bytes that a cache tier holds.', by('tier', held)),
    counter('mds_cache_evictions_total', 'Objects or pieces removed to make room for others.', by('tier', evictions)),
    gauge('mds_cache_pinned_bytes', 'Bytes in memory that slow readers hold.', figures.pinnedBytes),
  ];
}

function queueReadings({ queued, running, oldestDueMs }: Figures<'queue'>): Reading[] {
  return [
    gauge('mds_jobs', 'Jobs by state.', by('state', { queued, running })),
    gauge('mds_jobs_oldest_due_seconds', 'Age of the oldest job that is due and not claimed.', oldestDueMs / 1000),
  ];
}

function workerReadings(alive: Figures<'workers'>): Reading[] {
  return [gauge('mds_workers', 'Workers that have announced themselves.', alive)];
}

function ingestReadings({ created, existing, refused, receivedBytes }: Figures<'ingest'>): Reading[] {
  const results = by('result', { created, existing, ...refused });
  return [
    counter('mds_ingest_total', 'Ingests by result: created, existing, or the code of a refusal.', results),
    counter('mds_ingest_received_bytes_total', 'Received bytes of bodies.', receivedBytes),
  ];
}

function uploadReadings({ open, receiving, over, receivedBytes }: Figures<'uploads'>): Reading[] {
  return [
    gauge('mds_uploads_open', 'Resumable uploads that are open.', open),
    gauge('mds_uploads_receiving', 'Bodies of resumable uploads that are arriving.', receiving),
    counter('mds_uploads_total', 'Resumable uploads by how they ended.', by('result', over)),
    counter('mds_uploads_received_bytes_total', 'Received bytes of resumable uploads.', receivedBytes),
  ];
}

function regionReadings(regions: Figures<'regions'>): Reading[] {
  const nodes = regions.flatMap(({ code: region, nodes }) => {
    const alive = nodes.filter((node) => node.alive).length;
    return [
      { labels: { region, alive: 'true' }, value: alive },
      { labels: { region, alive: 'false' }, value: nodes.length - alive },
    ];
  });
  const statuses = regions.flatMap(({ code: region, status }) =>
    status === null ? [] : [{ labels: { region, status }, value: 1 }],
  );
  return [
    gauge('mds_region_nodes', 'Nodes of a region by whether they send heartbeats.', nodes),
    gauge('mds_region_status', 'The state of a region: 1 for the label that applies.', statuses),
  ];
}

function edgeReadings({ originUp, eventsLagMs, unreported, purges, reads }: Figures<'edge'>): Reading[] {
  const { hits: hit, misses: miss, stale, unavailable } = reads;
  return [
    gauge('mds_edge_origin_up', 'Whether the origin answers and accepts this node: 1 or 0.', Number(originUp)),
    gauge(
      'mds_edge_events_lag_seconds',
      'How long ago every event of the origin had been received; 0: all have been.',
      eventsLagMs / 1000,
    ),
    gauge('mds_edge_unreported_paths', 'Delivered paths not yet reported to the origin.', unreported),
    counter('mds_edge_purges_total', 'Purges and deletions of the origin that were applied.', purges),
    counter(
      'mds_edge_reads_total',
      'Answers of the read API by cache result.',
      by('cache', { hit, miss, stale, unavailable }),
    ),
  ];
}

function counter(name: string, help: string, values: number | FigureLine[]): Reading {
  return { name, help, type: 'counter', values: linesOf(values) };
}

function gauge(name: string, help: string, values: number | FigureLine[]): Reading {
  return { name, help, type: 'gauge', values: linesOf(values) };
}

function linesOf(values: number | FigureLine[]): FigureLine[] {
  return typeof values === 'number' ? [{ labels: {}, value: values }] : values;
}

/** A line for each value of one label. */
function by(label: string, counts: Partial<Record<string, number>>): FigureLine[] {
  return Object.entries(counts).map(([each, count]) => ({ labels: { [label]: each }, value: count ?? 0 }));
}
