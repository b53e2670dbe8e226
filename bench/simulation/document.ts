import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../needs.ts';
import { toMarkdown } from '../table.ts';
import { chartSvg } from './chart.ts';
import { formatShare } from './format.ts';
import { DEFAULTS, type Finding, type Scenario, study, tableOf, VARIABLES } from './study.ts';

const PAGE = join(root, 'docs', 'scale.md');
const PICTURE = join(root, 'docs', 'images', 'hit-ratio.svg');
const CACHE_SHARES = [0.003, 0.01, 0.03, 0.1, 0.3];
const ALPHAS = [0.6, 0.8, 1];
const COLORS = ['#8250df', '#0969da', '#1a7f37'];

/** Runs the simulations of docs/scale.md, and rewrites its tables and its picture. */
export async function writeDocument(progress: (message: string) => void): Promise<void> {
  const sizes = CACHE_SHARES.map((cacheShare): Scenario => ({ ...DEFAULTS, cacheShare }));
  const byAlpha = ALPHAS.map((alpha) =>
    study(
      sizes.map((size) => ({ ...size, alpha })),
      progress,
    ),
  );
  const usual = byAlpha[ALPHAS.indexOf(DEFAULTS.alpha)] ?? [];
  // Equally many requests for each point of presence. Otherwise the caches of many would hardly fill.
  const edges = study(
    [1, 4, 16].map((count) => ({ ...DEFAULTS, edges: count, requests: 200_000 * count })),
    progress,
  );
  const changes = [
    { ...DEFAULTS, cacheShare: 0.3 },
    { ...DEFAULTS, cacheShare: 0.3, arrivals: 1_000 },
    { ...DEFAULTS, cacheShare: 0.3, arrivals: 10_000 },
    { ...DEFAULTS, cacheShare: 0.3, purges: 1_000 },
  ];
  const tables = {
    'cache-size': tableOf('cache size', usual, [VARIABLES.cacheShare]),
    edges: tableOf('points of presence', edges, [VARIABLES.edges]),
    changes: tableOf('new media and purges', study(changes, progress), [VARIABLES.arrivals, VARIABLES.purges]),
  };
  let page = await readFile(PAGE, 'utf8');
  for (const [name, table] of Object.entries(tables)) page = withSection(page, name, toMarkdown(table));
  await writeFile(PAGE, page);
  await writeFile(PICTURE, picture(usual, byAlpha));
}

function withSection(page: string, name: string, text: string): string {
  const [begin, end] = [`<!-- simulation:${name} -->`, `<!-- /simulation:${name} -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`docs/scale.md has no section ${name}.`);
  return `${page.slice(0, from + begin.length)}\n${text}\n${page.slice(to)}`;
}

function picture(usual: readonly Finding[], byAlpha: readonly (readonly Finding[])[]): string {
  const ticks = CACHE_SHARES.map((share) => ({ x: share, text: formatShare(share) }));
  const through = (findings: readonly Finding[], y: (finding: Finding) => number) =>
    findings.map((finding) => ({ x: finding.scenario.cacheShare, y: y(finding) }));
  const xTitle = 'cache of an edge, of the bytes of the catalogue';
  return chartSvg('Hit ratio against cache size, simulated', [
    {
      ...{ title: `Zipf exponent ${DEFAULTS.alpha}`, xTitle, ticks },
      series: [
        { name: 'hit ratio', color: '#0969da', points: through(usual, ({ outcome }) => outcome.hitRatio) },
        { name: 'LRU (Che)', color: '#57606a', dashed: true, points: through(usual, ({ lru }) => lru.hitRatio) },
        { name: 'out of memory', color: '#1a7f37', points: through(usual, ({ outcome }) => outcome.memoryHitRatio) },
        { name: 'byte hit ratio', color: '#bc4c00', points: through(usual, ({ outcome }) => outcome.byteHitRatio) },
      ],
    },
    {
      ...{ title: 'Hit ratio by Zipf exponent', xTitle, ticks },
      series: byAlpha.map((findings, index) => ({
        name: `alpha ${ALPHAS[index]}`,
        color: COLORS[index] ?? '#24292f',
        points: through(findings, ({ outcome }) => outcome.hitRatio),
      })),
    },
  ]);
}
