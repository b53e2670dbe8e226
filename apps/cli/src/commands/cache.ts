import { type Command, Option } from 'commander';
import type { PurgeArguments } from '../cache/purge-cache.ts';
import type { Context } from '../context.ts';
import { mediaId, secondsToWait } from './arguments.ts';

/** `mds cache`: what the points of presence hold. */
export function registerCache(program: Command, context: () => Context): void {
  const cache = program.command('cache').description('caches of the points of presence');
  cache
    .command('purge')
    .description('drop something from every cache in every region (needs a token)')
    .addOption(new Option('--media <id>', 'all of a media object').argParser(mediaId).conflicts(['path', 'everything']))
    .addOption(
      new Option(
        '--path <path>',
        'what is at one path of delivery, or at an address of it, wherever that leads',
      ).conflicts([...['media', 'everything']]),
    )
    .addOption(new Option('--everything', 'all there is').conflicts(['media', 'path']))
    .option('--wait <seconds>', 'how long to wait for the nodes, 0 to 30', secondsToWait, 5)
    .addHelpText('after', HELP)
    .action(async (options: PurgeArguments) => {
      const { purgeCache } = await import('../cache/purge-cache.ts');
      return purgeCache(context(), options);
    });
}

const HELP = `
Nothing is lost by it: what is asked for again is fetched again. Prints a
receipt for each node: purged; pending, it has not said so in time; silent, it
is not heard of, and drops it as soon as it hears from its origin again. One
that is gone for good: mds regions forget NODE.
Elsewhere than on a terminal: region, node, state, tab-separated.

Exit code 1 unless every node has dropped it, 3 where there is nothing to purge:
no such media object, nothing at the path. To purge again does no harm.

Examples:
  mds cache purge --media med_01k0c4s6q8y2v4w6x8z0a2c4e6
  mds cache purge --everything --wait 30
`;
