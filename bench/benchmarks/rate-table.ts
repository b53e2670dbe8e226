import type { Table } from '../benchmark.ts';
import { summarize } from '../statistics.ts';

/** The rates of each side, one row a side. */
export function rateTable(title: string, sides: Readonly<Record<string, readonly number[]>>, digits = 0): Table {
  return {
    title,
    head: ['side', 'median', 'lowest', 'highest'],
    rows: Object.entries(sides).map(([name, values]) => {
      const { median, low, high } = summarize(values);
      return [name, ...[median, low, high].map((value) => value.toFixed(digits))];
    }),
  };
}
