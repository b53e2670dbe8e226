import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { humanAge, humanBytes } from '../output/quantities.ts';
import { pageSize, regionCode } from './arguments.ts';
import { listByDefault } from './list-by-default.ts';

/** `mds assets`: recently requested paths. */
export function registerAssets(program: Command, context: () => Context): void {
  const assets = program.command('assets').description('recently requested paths (default: list)');
  listByDefault(assets);
  assets
    .command('list', { isDefault: true })
    .description('list recently requested paths and how the cache answered')
    .option('--limit <count>', 'how many, 1 to 100', pageSize, 25)
    .option('--region <code>', 'only this region', regionCode)
    .addHelpText('after', HELP)
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
        title: 'FIRST SEEN',
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
  const isRepeated = new Set(list.data.map(({ path }) => path)).size < list.data.length;
  if (context.interactive && region === undefined && isRepeated) {
    context.note(context.errorColours.dim('A path is listed once for each region. Use --region CODE for one region.'));
  }
}

const HELP = `
The latest request comes first. A path is listed once for each region that
delivered it; use --region to see one region. CACHE: how that region answered
the latest request. SIZE: the size of the whole file. FIRST SEEN: the first
request in that region.

In a pipe: id, HIT or MISS, bytes, first request, path, tab-separated.

Examples:
  mds assets list --region fra1
  mds assets list --limit 100 | awk -F'\\t' '$2 == "MISS" { print $5 }'
`;
