import { type Command, Option } from 'commander';
import type { PurgeArguments } from '../cache/purge-cache.ts';
import type { Context } from '../context.ts';
import { mediaId, secondsToWait } from './arguments.ts';

/** `mds cache`: the caches of the points of presence. */
export function registerCache(program: Command, context: () => Context): void {
  const cache = program.command('cache').description('caches of the points of presence');
  cache
    .command('purge')
    .description('drop files from every cache in every region (needs a token)')
    .addOption(
      new Option('--media <id>', 'everything of a media object').argParser(mediaId).conflicts(['path', 'everything']),
    )
    .addOption(
      new Option('--path <path>', 'the files behind one delivery path or URL').conflicts([...['media', 'everything']]),
    )
    .addOption(new Option('--everything', 'everything').conflicts(['media', 'path']))
    .option('--wait <seconds>', 'how long to wait for the nodes, 0 to 30', secondsToWait, 5)
    .addHelpText('after', HELP)
    .action(async (options: PurgeArguments) => {
      const { purgeCache } = await import('../cache/purge-cache.ts');
      return purgeCache(context(), options);
    });
}

const HELP = `
A purge loses nothing: the next request fetches the file again. The command
prints a receipt for each node:
  purged    the node dropped it
  pending   the node did not confirm in time
  silent    the node sends no heartbeats; it drops the files when it is back
If a node is gone for good, run mds regions forget NODE.

In a pipe: region, node, state, tab-separated.

Exit code 1 unless every node has dropped it. Exit code 3 if there is nothing to
purge: no such media object, or nothing at the path. A repeated purge is safe.

Examples:
  mds cache purge --media med_01k0c4s6q8y2v4w6x8z0a2c4e6
  mds cache purge --everything --wait 30
`;
