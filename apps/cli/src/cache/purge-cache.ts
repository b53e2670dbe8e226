import type { Client, Purge, PurgeReceipt } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT, ReportedError } from '../exit-codes.ts';
import { colourState } from '../output/colours.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { counted } from '../output/quantities.ts';

/** The options of `mds cache purge`, parsed. */
export interface PurgeArguments {
  media?: string;
  path?: string;
  everything?: boolean;
  wait: number;
}

/**
 * Has every node drop files from its caches, and prints the receipts of the nodes.
 * @throws ReportedError if a node has not confirmed the purge
 */
export async function purgeCache(context: Context, options: PurgeArguments): Promise<void> {
  const { io } = context;
  if (options.media === undefined && options.path === undefined && !options.everything) {
    throw new CliError('Nothing to purge was named. One of --media, --path and --everything is needed.', {
      exitCode: EXIT.usage,
      hints: ['mds cache purge --help'],
    });
  }
  const client = await context.operator();
  const what = whatToPurge(client, options);
  const untilMs = Date.now() + options.wait * 1000;
  const block = createLiveBlock(context.progress, () => [
    context.errorColours.dim(
      `Waiting for the nodes, ${Math.max(0, Math.ceil((untilMs - Date.now()) / 1000))}s at most`,
    ),
  ]);
  const purging = client.control.cache.purge(what, { wait: options.wait, signal: io.signal });
  const result = await purging.finally(() => block.stop());

  context.list<PurgeReceipt>({
    rows: result.receipts,
    columns: [
      { title: 'REGION', text: ({ region }) => region },
      { title: 'NODE', text: ({ node }) => node, shrinkTo: 12, keep: 'end' },
      { title: 'STATE', text: ({ state }) => state, colour: (text) => colourState(context.colours, text) },
    ],
    json: result,
    empty: 'No known node can hold it.',
  });
  const { receipts } = result;
  const counts = (['purged', 'pending', 'silent'] as const)
    .map((state) => ({ state, count: receipts.filter((receipt) => receipt.state === state).length }))
    .filter(({ count }) => count > 0)
    .map(({ state, count }) => `${count} ${state}`);
  if (receipts.length > 0) context.note(`${counted(receipts.length, 'node')}: ${counts.join(', ')}`);
  if (receipts.some(({ state }) => state === 'silent')) {
    context.note(
      context.errorColours.dim(
        'A silent node drops it when it reaches its origin again. If a node is gone for good: mds regions forget NODE',
      ),
    );
  }
  if (!result.complete) throw new ReportedError('Not every node has dropped it yet.');
}

function whatToPurge(client: Client, { media, path }: PurgeArguments): Purge {
  if (media !== undefined) return { media_id: media };
  return path === undefined ? { everything: true } : { path: deliveryPath(client.baseUrl, path) };
}

/** The delivery path of a path or URL. The URL may be of the service, of a point of presence, or of a proxy in front of them. */
function deliveryPath(baseUrl: string, text: string): string {
  const path = text.startsWith(`${baseUrl}/`) ? text.slice(baseUrl.length) : pathOf(text);
  if (path.startsWith('/media/')) return path;
  throw new CliError(
    `${JSON.stringify(text)} is neither a delivery path, which begins with /media/, nor a URL of one.`,
    { exitCode: EXIT.usage },
  );
}

function pathOf(text: string): string {
  return /^https?:\/\//i.test(text) && URL.canParse(text) ? new URL(text).pathname : text;
}
