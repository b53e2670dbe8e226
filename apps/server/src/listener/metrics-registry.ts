import { Counter, Gauge, type Metric, Registry } from 'prom-client';
import type { MetricSources } from './metric-sources.ts';
import type { FigureLine, RequestFigures } from './request-figures.ts';

/** What {@link createMetricsRegistry} makes. */
export interface MetricsRegistry {
  /** Reads every figure from its source and formats them. */
  render(): Promise<{ text: string; contentType: string }>;
}

/** Makes a registry of its own with the names and meanings of all figures. */
export function createMetricsRegistry(sources: MetricSources, requests: RequestFigures): MetricsRegistry {
  const registry = new Registry();
  const registers = [registry];
  /** A metric whose lines come from a source. */
  const sourced = (name: string, type: string, help: string, lines: () => FigureLine[]) => {
    const metric = { name, help, type, get: async () => ({ name, help, type, values: lines(), aggregator: 'sum' }) };
    // The registry uses only `name` and `get` of a metric, but its type demands one of prom-client's classes.
    registry.registerMetric(metric as unknown as Metric);
  };
  sourced('mds_http_requests_total', 'counter', 'Answered HTTP requests.', requests.totals);
  const durations = 'mds_http_request_duration_seconds';
  sourced(durations, 'histogram', "Time from a request's head to the end of its answer.", () =>
    requests.durations(durations),
  );
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name, help, labelNames, registers });
  /** A counter whose total comes from a source. */
  const total = (name: string, help: string, labelNames: string[] = []) => {
    const counter = new Counter({ name, help, labelNames, registers });
    return (values: readonly (readonly [labels: Record<string, string>, value: number])[]) => {
      counter.reset();
      for (const [labels, value] of values) counter.inc(labels, value);
    };
  };
  const read: (() => Promise<void>)[] = [];

  const memory = gauge('mds_process_resident_memory_bytes', 'Resident memory of this process.');
  const uptime = gauge('mds_process_uptime_seconds', 'Time since this process started.');
  read.push(async () => {
    memory.set(process.memoryUsage.rss());
    uptime.set(process.uptime());
  });

  const { deliveries, queue, workers, ingest, uploads, regions, edge } = sources;
  if (deliveries) {
    const delivered = total('mds_deliveries_total', 'Deliveries by how the cache answered.', ['cache']);
    const stale = total('mds_deliveries_stale_total', 'Out-of-date deliveries because the origin did not answer.');
    const unavailable = total(
      'mds_deliveries_unavailable_total',
      'Requests refused because of an outage of what they need.',
    );
    const collapsed = total('mds_deliveries_collapsed_total', 'Misses that shared the read of another one.');
    const sent = total('mds_delivered_bytes_total', 'Bytes of bodies handed over to clients.');
    const originReads = total('mds_origin_reads_total', 'Reads of the object store, or of the origin of an edge.');
    const damaged = total('mds_damaged_objects_total', 'Objects or pieces found missing or damaged.');
    const cacheBytes = gauge('mds_cache_bytes', 'Bytes that a cache tier holds.', ['tier']);
    const evictions = total('mds_cache_evictions_total', 'Objects or pieces removed to make room for others.', [
      'tier',
    ]);
    const pinned = gauge('mds_cache_pinned_bytes', 'Bytes in memory that slow readers hold.');
    read.push(async () => {
      const figures = deliveries();
      delivered([
        [{ cache: 'hit' }, figures.hits],
        [{ cache: 'miss' }, figures.misses],
      ]);
      stale([[{}, figures.stale]]);
      unavailable([[{}, figures.unavailable]]);
      collapsed([[{}, figures.collapsed]]);
      sent([[{}, figures.bytesSent]]);
      originReads([[{}, figures.storeReads]]);
      damaged([[{}, figures.damagedObjects]]);
      cacheBytes.set({ tier: 'memory' }, figures.memoryBytes);
      cacheBytes.set({ tier: 'disk' }, figures.diskBytes);
      evictions([
        [{ tier: 'memory' }, figures.memoryEvictions],
        [{ tier: 'disk' }, figures.diskEvictions],
      ]);
      pinned.set(figures.pinnedBytes);
    });
  }
  if (queue) {
    const jobs = gauge('mds_jobs', 'Jobs by state.', ['state']);
    const oldest = gauge('mds_jobs_oldest_due_seconds', 'Age of the oldest job that is due and not claimed.');
    read.push(async () => {
      const counts = await queue();
      jobs.set({ state: 'queued' }, counts.queued);
      jobs.set({ state: 'running' }, counts.running);
      oldest.set(counts.oldestDueMs / 1000);
    });
  }
  if (workers) {
    const alive = gauge('mds_workers', 'Workers that have announced themselves.');
    read.push(async () => alive.set(await workers()));
  }
  if (ingest) {
    const results = total('mds_ingest_total', 'Ingests by result: created, existing, or the code of a refusal.', [
      'result',
    ]);
    const received = total('mds_ingest_received_bytes_total', 'Received bytes of bodies.');
    read.push(async () => {
      const { created, existing, receivedBytes, refused } = ingest();
      const all = Object.entries({ created, existing, ...refused });
      results(all.map(([result, count]) => [{ result }, count ?? 0]));
      received([[{}, receivedBytes]]);
    });
  }
  if (uploads) {
    const open = gauge('mds_uploads_open', 'Resumable uploads that are open.');
    const receiving = gauge('mds_uploads_receiving', 'Bodies of resumable uploads that are arriving.');
    const over = total('mds_uploads_total', 'Resumable uploads by how they ended.', ['result']);
    const received = total('mds_uploads_received_bytes_total', 'Received bytes of resumable uploads.');
    read.push(async () => {
      const figures = await uploads();
      open.set(figures.open);
      receiving.set(figures.receiving);
      over(Object.entries(figures.over).map(([result, count]) => [{ result }, count]));
      received([[{}, figures.receivedBytes]]);
    });
  }

  if (regions) {
    const nodes = gauge('mds_region_nodes', 'Nodes of a region by whether they send heartbeats.', ['region', 'alive']);
    const status = gauge('mds_region_status', 'The state of a region: 1 for the label that applies.', [
      'region',
      'status',
    ]);
    read.push(async () => {
      nodes.reset();
      status.reset();
      for (const region of await regions()) {
        const alive = region.nodes.filter((node) => node.alive).length;
        nodes.set({ region: region.code, alive: 'true' }, alive);
        nodes.set({ region: region.code, alive: 'false' }, region.nodes.length - alive);
        if (region.status !== null) status.set({ region: region.code, status: region.status }, 1);
      }
    });
  }

  if (edge) {
    const up = gauge('mds_edge_origin_up', 'Whether the origin answers and accepts this node: 1 or 0.');
    const lag = gauge(
      'mds_edge_events_lag_seconds',
      'How long ago every event of the origin had been received; 0: all have been.',
    );
    const unreported = gauge('mds_edge_unreported_paths', 'Delivered paths not yet reported to the origin.');
    const purges = total('mds_edge_purges_total', 'Purges and deletions of the origin that were applied.');
    const reads = total('mds_edge_reads_total', 'Answers of the read API by cache result.', ['cache']);
    read.push(async () => {
      const figures = edge();
      up.set(Number(figures.originUp));
      lag.set(figures.eventsLagMs / 1000);
      unreported.set(figures.unreported);
      purges([[{}, figures.purges]]);
      reads([
        [{ cache: 'hit' }, figures.reads.hits],
        [{ cache: 'miss' }, figures.reads.misses],
        [{ cache: 'stale' }, figures.reads.stale],
        [{ cache: 'unavailable' }, figures.reads.unavailable],
      ]);
    });
  }

  return {
    async render() {
      await Promise.all(read.map((update) => update()));
      return { text: await registry.metrics(), contentType: registry.contentType };
    },
  };
}
