/** Upper bounds of the histogram's buckets, in seconds. */
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60] as const;

/** Counts the answers of one method and route. It takes a few additions, so that even the fastest answers are counted. */
export interface RouteFigures {
  /** @param seconds from the head of the request to the end of its answer */
  count(status: number, seconds: number): void;
}

/** One line of a metric in Prometheus's text format. */
export interface FigureLine {
  metricName?: string;
  labels: Record<string, string | number>;
  value: number;
}

/** Number and duration of answered requests. */
export interface RequestFigures {
  /** The figures of a method and a route, always the same object. Both must come from a small set, because no pair is ever removed. */
  of(method: string, route: string): RouteFigures;
  /** Lines by method, route and status. */
  totals(): FigureLine[];
  /** Lines of a histogram by method and route. */
  durations(name: string): FigureLine[];
}

interface Counted extends RouteFigures {
  labels: { method: string; route: string };
  statuses: Map<number, number>;
  /** Answers within each bound but not within the one before; last: answers beyond all bounds. */
  buckets: number[];
  sumSeconds: number;
}

/** Makes {@link RequestFigures}. */
export function createRequestFigures(): RequestFigures {
  const known = new Map<string, Counted>();

  const make = (method: string, route: string): Counted => {
    const statuses = new Map<number, number>();
    const buckets = new Array<number>(BOUNDS.length + 1).fill(0);
    const counted: Counted = {
      labels: { method, route },
      statuses,
      buckets,
      sumSeconds: 0,
      count(status, seconds) {
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        let bucket = 0;
        while (bucket < BOUNDS.length && seconds > (BOUNDS[bucket] ?? 0)) bucket += 1;
        buckets[bucket] = (buckets[bucket] ?? 0) + 1;
        counted.sumSeconds += seconds;
      },
    };
    return counted;
  };

  return {
    of(method, route) {
      const key = `${method} ${route}`;
      let counted = known.get(key);
      if (counted === undefined) {
        counted = make(method, route);
        known.set(key, counted);
      }
      return counted;
    },

    totals() {
      return [...known.values()].flatMap(({ labels, statuses }) =>
        [...statuses].map(([status, value]) => ({ labels: { ...labels, status }, value })),
      );
    },

    durations(name) {
      return [...known.values()].flatMap(({ labels, buckets, sumSeconds }) => {
        let count = 0;
        const lines = buckets.map((inBucket, index): FigureLine => {
          count += inBucket;
          return { metricName: `${name}_bucket`, labels: { ...labels, le: BOUNDS[index] ?? '+Inf' }, value: count };
        });
        // The route was looked up but never answered.
        if (count === 0) return [];
        return [
          ...lines,
          { metricName: `${name}_sum`, labels, value: sumSeconds },
          { metricName: `${name}_count`, labels, value: count },
        ];
      });
    },
  };
}
