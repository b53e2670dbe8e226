import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { defineBenchmark } from '../benchmark.ts';
import { root } from '../needs.ts';
import { alternate } from '../rounds.ts';
import { dataDirWithMedia } from '../service/media-rows.ts';
import { builtService, startService } from '../service/start-service.ts';
import { ratioOf, summarize } from '../statistics.ts';

const cli = 'apps/cli/dist/main.js';

export default defineBenchmark({
  name: 'start',
  what: 'time from spawn to `listening` with 1,000,000 media, and time of `mds --help`',
  against: '`node -e 0`',
  goals: {
    service: { says: 'service until it listens, relative to node -e 0', atMost: 9 },
    help: { says: 'mds --help, relative to node -e 0', atMost: 2 },
  },
  needs: [builtService, { file: cli, hint: 'build it with `npm run build`.' }],
  async run({ rounds, quick, progress }) {
    const rows = quick ? 10_000 : 1_000_000;
    const dataDir = await dataDirWithMedia(rows, progress);
    const problems: string[] = [];
    const times = await alternate(
      {
        service: async () => {
          const service = await startService(dataDir);
          try {
            const { status } = await fetch(`${service.url}/api/v1/media?limit=1`);
            if (status !== 200) problems.push(`the service reported that it listens, and then answered ${status}`);
            return service.startMs;
          } finally {
            await service.stop();
          }
        },
        'mds --help': () => runToEnd([join(root, cli), '--help'], problems),
        'node -e 0': () => runToEnd(['-e', '0'], problems),
      },
      rounds,
      progress,
    );
    const title = `milliseconds, ${rows.toLocaleString('en')} media`;
    return {
      ratios: {
        service: ratioOf(times.service, times['node -e 0']),
        help: ratioOf(times['mds --help'], times['node -e 0']),
      },
      tables: [
        {
          title,
          head: ['what', 'median ms', 'lowest', 'highest'],
          rows: Object.entries(times).map(([name, values]) => {
            const { median, low, high } = summarize(values);
            return [name, median.toFixed(0), low.toFixed(0), high.toFixed(0)];
          }),
        },
      ],
      problems,
      notes: ['Files are in the page cache after the warm-up: this is a restart, not the first start after boot.'],
    };
  },
});

async function runToEnd(args: readonly string[], problems: string[]): Promise<number> {
  const { NODE_OPTIONS: _, ...env } = process.env;
  const start = performance.now();
  const child = spawn(process.execPath, args, { stdio: 'ignore', env });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) problems.push(`node ${args.join(' ')} ended with ${code}`);
  return performance.now() - start;
}
