import type { Table } from '../benchmark.ts';
import { createCatalogue } from './catalogue.ts';
import { createDeliveryLog, type Demand } from './delivery-log.ts';
import { formatBytes, formatRatio, formatShare } from './format.ts';
import { cheHitRatios } from './lru-theory.ts';
import { type Outcome, simulate } from './simulate.ts';

/** The parameters of a simulation: demand and caches. */
export interface Scenario extends Demand {
  /** Share of the media that are videos, 0 to 1. */
  readonly videos: number;
  /** First part of the requests, 0 to 1, that does not count. */
  readonly warmUp: number;
  /** The disk cache of each point of presence, as a share of all bytes of the catalogue. */
  readonly cacheShare: number;
  /** The memory cache, as a share of the disk cache. */
  readonly memoryShare: number;
}

/** One simulated scenario. */
export interface Finding {
  readonly scenario: Scenario;
  readonly catalogueBytes: number;
  readonly cacheBytes: number;
  readonly memoryCacheBytes: number;
  readonly outcome: Outcome;
  /** The hit ratio of plain LRU of the same size by the approximation of Che, Tung and Wang, without new or purged media. */
  readonly lru: { readonly hitRatio: number; readonly byteHitRatio: number };
}

/** Memory in the proportion of the service's defaults: 256 MiB to 10 GiB. */
export const DEFAULTS: Scenario = {
  ...{ seed: 1, alpha: 0.8, media: 3_000, videos: 0.1, requests: 800_000, warmUp: 0.5 },
  ...{ edges: 4, regional: 0.3, arrivals: 0, purges: 0, cacheShare: 0.05, memoryShare: 0.025 },
};

/** Simulates scenarios one by one. */
export function study(
  scenarios: readonly Scenario[],
  progress: (message: string) => void = () => undefined,
): Finding[] {
  return scenarios.map((scenario, index) => {
    progress(`scenario ${index + 1} of ${scenarios.length}`);
    const log = createDeliveryLog(scenario, () => createCatalogue(scenario.seed, scenario.videos));
    const cacheBytes = Math.round(log.catalogueBytes * scenario.cacheShare);
    const memoryCacheBytes = Math.round(cacheBytes * scenario.memoryShare);
    const { edges, requests, warmUp } = scenario;
    const outcome = simulate(log, { edges, requests, warmUp, room: { cacheBytes, memoryCacheBytes } });
    const lru = cheHitRatios(log.popularity(0), cacheBytes);
    return { scenario, catalogueBytes: log.catalogueBytes, cacheBytes, memoryCacheBytes, outcome, lru };
  });
}

/** A column for a parameter that varies. */
export interface Variable {
  readonly head: string;
  cell(finding: Finding): string;
}

/** The possible columns, by the name of their option. */
export const VARIABLES = {
  alpha: { head: 'alpha', cell: ({ scenario }) => String(scenario.alpha) },
  media: { head: 'media', cell: ({ scenario }) => scenario.media.toLocaleString('en') },
  videos: { head: 'videos', cell: ({ scenario }) => formatShare(scenario.videos) },
  edges: { head: 'edges', cell: ({ scenario }) => String(scenario.edges) },
  regional: { head: 'regional', cell: ({ scenario }) => formatShare(scenario.regional) },
  arrivals: { head: 'new in 10^6', cell: ({ scenario }) => scenario.arrivals.toLocaleString('en') },
  purges: { head: 'purges in 10^6', cell: ({ scenario }) => scenario.purges.toLocaleString('en') },
  cacheShare: { head: 'cache size', cell: ({ scenario }) => formatShare(scenario.cacheShare) },
} satisfies Partial<Record<keyof Scenario, Variable>>;

/** The results as a table; `variables` are its first columns. */
export function tableOf(title: string, findings: readonly Finding[], variables: readonly Variable[]): Table {
  return {
    title,
    head: [
      ...variables.map(({ head }) => head),
      ...[
        'an edge',
        'hit ratio',
        'of it memory',
        'byte hit ratio',
        'LRU (Che)',
        'origin, of 1,000',
        'first requests',
        'origin, of 1 GiB',
      ],
    ],
    rows: findings.map((finding) => {
      const { cacheBytes, outcome, lru } = finding;
      return [
        ...variables.map(({ cell }) => cell(finding)),
        formatBytes(cacheBytes),
        formatRatio(outcome.hitRatio),
        formatRatio(outcome.memoryHitRatio),
        formatRatio(outcome.byteHitRatio),
        formatRatio(lru.hitRatio),
        (outcome.originRequestRatio * 1000).toFixed(0),
        (outcome.firstRequestRatio * 1000).toFixed(0),
        formatBytes((1 - outcome.byteHitRatio) * 1024 ** 3),
      ];
    }),
  };
}
