import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { defineBenchmark, type Table } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { load } from '../service/load.ts';
import { dataDirWithMedia } from '../service/media-rows.ts';
import { builtService, startService } from '../service/start-service.ts';
import { ratioOf, summarize } from '../statistics.ts';

const limits = [100, 25] as const;

export default defineBenchmark({
  name: 'api',
  what: 'GET /api/v1/media with limit 100 and 25, warm, over 16 kept connections',
  against: 'bare node:http, which sends the same bytes from memory',
  goals: {
    'limit 100': { says: 'limit=100: our requests a second, relative to bare', atLeast: 0.85 },
    'limit 25': { says: 'limit=25: our requests a second, relative to bare', atLeast: 0.85 },
  },
  needs: [builtService],
  async run({ rounds, quick, progress }) {
    const service = await startService(await dataDirWithMedia(1_000, progress));
    try {
      const measured = { 100: await compare(100), 25: await compare(25) };
      return {
        ratios: {
          'limit 100': ratioOf(measured[100].ours, measured[100].bare),
          'limit 25': ratioOf(measured[25].ours, measured[25].bare),
        },
        tables: limits.map((limit) => rateTable(`limit=${limit}, requests a second`, measured[limit])),
        problems: limits.flatMap((limit) => measured[limit].problems),
        notes: [
          'autocannon, the service and the bare server each run in their own process; 1,000 media in the database.',
        ],
      };
    } finally {
      await service.stop();
    }

    async function compare(limit: (typeof limits)[number]) {
      const address = `${service.url}/api/v1/media?limit=${limit}`;
      const bare = await startBare(address);
      const problems = await differences(address, bare.url, limit);
      const measure = async (url: string, side: string) => {
        const { requestsPerSecond, failures } = await load(url, quick ? 2 : 6);
        if (failures > 0) problems.push(`${side}, limit=${limit}: ${failures} requests failed`);
        return requestsPerSecond;
      };
      const times = await alternate(
        { ours: () => measure(address, 'ours'), bare: () => measure(bare.url, 'bare') },
        rounds,
        (message) => progress(`limit=${limit}: ${message}`),
      );
      bare.stop();
      return { ...times, problems };
    }
  },
});

async function startBare(address: string) {
  const child = fork(fileURLToPath(new URL('../sides/bare-http.ts', import.meta.url)), [address]);
  const [{ url }] = (await once(child, 'message')) as [{ url: string }];
  return { url, stop: () => child.disconnect() };
}

/** Both must send the same page, and it must be a full one. */
async function differences(ours: string, bare: string, limit: number): Promise<string[]> {
  const [ourBody, bareBody] = [await (await fetch(ours)).text(), await (await fetch(bare)).text()];
  const { data } = JSON.parse(ourBody) as { data: unknown[] };
  return [
    ...(ourBody === bareBody ? [] : [`limit=${limit}: the two sides do not send the same bytes`]),
    ...(data.length === limit ? [] : [`limit=${limit}: the page has ${data.length} rows`]),
  ];
}

function rateTable(title: string, { ours, bare }: Record<'ours' | 'bare', number[]>): Table {
  return {
    title,
    head: ['side', 'median', 'lowest', 'highest'],
    rows: Object.entries({ ours, bare }).map(([name, values]) => {
      const { median, low, high } = summarize(values);
      return [name, median.toFixed(0), low.toFixed(0), high.toFixed(0)];
    }),
  };
}
