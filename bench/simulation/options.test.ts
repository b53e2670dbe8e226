import { describe, expect, it } from 'vitest';
import { chartSvg } from './chart.ts';
import { formatBytes, formatShare } from './format.ts';
import { InvalidOptionError, readOptions } from './options.ts';
import { DEFAULTS, study, tableOf, VARIABLES } from './study.ts';

describe('options of the simulation', () => {
  it('make every combination of the given lists', () => {
    const { scenarios } = readOptions(['--alpha', '0.6,1', '--cache-share', '0.01,0.1', '--seed', '5']);
    expect(scenarios.map(({ alpha, cacheShare, seed }) => [alpha, cacheShare, seed])).toEqual([
      [0.6, 0.01, 5],
      [0.6, 0.1, 5],
      [1, 0.01, 5],
      [1, 0.1, 5],
    ]);
    expect(readOptions([]).scenarios).toHaveLength(5);
    expect(readOptions([]).scenarios[0]).toEqual({ ...DEFAULTS, cacheShare: 0.003 });
  });

  it.each([[['--alpha', 'a']], [['--alpha', '']], [['--edges', '1.5']], [['--cache-share', '0']], [['--nothing']]])(
    'that mean nothing are refused: %j',
    (argv) => expect(() => readOptions(argv)).toThrow(InvalidOptionError),
  );
});

describe('the report of a simulation', () => {
  it('shows the figures of the findings in a table', () => {
    const scenario = { ...DEFAULTS, media: 50, requests: 2_000, edges: 1 };
    const findings = study([scenario]);
    const { head, rows } = tableOf('title', findings, [VARIABLES.cacheShare]);
    const row = Object.fromEntries(head.map((name, column) => [name, rows[0]?.[column]]));
    expect(row['cache size']).toBe('5 %');
    expect(row['hit ratio']).toBe(findings[0]?.outcome.hitRatio.toFixed(3));
    expect(Number(row['origin, of 1,000'])).toBeCloseTo(1000 - 1000 * (findings[0]?.outcome.hitRatio ?? 0), -1);
    expect(JSON.parse(JSON.stringify(findings))).toEqual(findings);
  });

  it('prints units that are easy to read', () => {
    expect([0, 999, 1024, 1_500_000, 10 * 1024 ** 3].map(formatBytes)).toEqual([
      ...['0 B', '999 B', '1.0 KiB', '1.4 MiB', '10 GiB'],
    ]);
    expect([0.003, 0.1, 0.3, 0].map(formatShare)).toEqual(['0.3 %', '10 %', '30 %', '0 %']);
  });

  it('draws larger ratios higher, and escapes the names in its chart', () => {
    const points = (y: number) => [0.01, 0.1].map((x) => ({ x, y }));
    const series = [0.2, 0.9].map((y) => ({ name: `<${y}>`, color: '#000000', points: points(y) }));
    const svg = chartSvg('a & b', [{ title: 't', xTitle: 'x', ticks: [], series }]);
    const heights = [...svg.matchAll(/<path d="M[\d.]+ ([\d.]+)L/g)].map(([, y]) => Number(y));
    expect(heights[0]).toBeGreaterThan(heights[1] ?? 0);
    expect(svg).toContain('&lt;0.2&gt;');
    expect(svg).toContain('a &amp; b');
  });
});
