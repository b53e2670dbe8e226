import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { humanAge, humanBytes } from '../output/quantities.ts';
import { pageSize } from './arguments.ts';

/** `mds assets`: what was requested lately. */
export function registerAssets(program: Command, context: () => Context): void {
  const assets = program.command('assets').description('what was requested lately');
  assets
    .command('list')
    .description('list the assets that were requested lately, and how the cache answered')
    .option('--limit <count>', 'how many, 1 to 100', pageSize, 25)
    .option('--region <code>', 'only those of one region')
    .action((options: AssetOptions) => listAssets(context(), options));
}

interface AssetOptions {
  limit: number;
  region?: string;
}

async function listAssets(context: Context, { limit, region }: AssetOptions): Promise<void> {
  const client = await context.client();
  const list = await client.assets.list({ limit, region, signal: context.io.signal });
  const now = Date.now();
  context.list({
    rows: list.data,
    columns: [
      { title: 'ID', text: ({ id }) => id },
      { title: 'CACHE', text: (asset) => asset.cache_status, colour: (text) => colourState(context.colours, text) },
      { title: 'SIZE', text: ({ bytes }) => humanBytes(bytes), plain: ({ bytes }) => String(bytes), align: 'right' },
      {
        title: 'AGE',
        text: (asset) => humanAge(asset.created_at, now),
        plain: (asset) => asset.created_at,
        align: 'right',
        expendable: 1,
      },
      { title: 'PATH', text: ({ path }) => path, shrinkTo: 16, keep: 'end' },
    ],
    json: list,
    empty: 'Nothing has been requested yet.',
  });
}
