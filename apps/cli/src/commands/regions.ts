import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { AddArguments } from '../regions/write-region.ts';
import { countryCode, nodeName, regionCode, zoneName } from './arguments.ts';
import { listByDefault } from './list-by-default.ts';

/** `mds regions`: points of presence. */
export function registerRegions(program: Command, context: () => Context): void {
  const regions = program.command('regions').description('points of presence (default: list)');
  listByDefault(regions);

  regions
    .command('list', { isDefault: true })
    .description('list the points of presence and their state')
    .option('--all', 'every known region with its nodes (needs a token)')
    .addHelpText('after', LIST_HELP)
    .action(async ({ all }: { all?: boolean }) => {
      const { listAllRegions, listRegions } = await import('../regions/list-regions.ts');
      return all ? listAllRegions(context()) : listRegions(context());
    });

  regions
    .command('add')
    .description('add a region, or change its name, zone or country (needs a token)')
    .argument('<code>', 'letters and a digit: fra1. For a city of the built-in catalogue, that is all', regionCode)
    .option('--name <name>', 'the city')
    .option('--zone <zone>', 'geographic area and direction: europe-central', zoneName)
    .option('--country <country>', 'two upper-case letters: DE', countryCode)
    .addOption(
      new Option('--catalogue', 'use name, zone and country of the built-in catalogue again').conflicts([
        ...['name', 'zone', 'country'],
      ]),
    )
    .addHelpText('after', ADD_HELP)
    .action(async (code: string, options: AddArguments) => {
      const { addRegion } = await import('../regions/write-region.ts');
      return addRegion(context(), code, options);
    });

  regions
    .command('maintain')
    .description('show a region as under maintenance (needs a token)')
    .argument('<code>', 'fra1', regionCode)
    .option('--off', 'show the measured state again')
    .action(async (code: string, { off }: { off?: boolean }) => {
      const { maintainRegion } = await import('../regions/write-region.ts');
      return maintainRegion(context(), code, off !== true);
    });

  regions
    .command('remove')
    .description('remove a region that no node serves, with its asset records (needs a token)')
    .argument('<code>', 'fra1', regionCode)
    .option('-y, --yes', 'do not ask')
    .action(async (code: string, { yes }: { yes?: boolean }) => {
      const { removeRegion } = await import('../regions/remove-region.ts');
      return removeRegion(context(), code, yes === true);
    });

  regions
    .command('forget')
    .description('forget a node that is gone for good, so that no purge waits for it (needs a token)')
    .argument('<node>', 'its name in mds regions list --all', nodeName)
    .addHelpText('after', FORGET_HELP)
    .action(async (node: string) => {
      const { forgetNode } = await import('../regions/forget-node.ts');
      return forgetNode(context(), node);
    });
}

const LIST_HELP = `
Without --all: the regions that are listed publicly, which a node serves or
served until it failed. In a pipe: code, name, zone, country, status,
tab-separated. With --all a line for each node, which adds maintenance (true,
false), node, alive or silent, and when it was last seen.
`;

const ADD_HELP = `
A region is listed publicly once a node serves it.

Examples:
  mds regions add ams1
  mds regions add ulm1 --name Ulm --zone europe-central --country DE
  mds regions add ams1 --name 'Amsterdam South'
  mds regions add ams1 --catalogue
`;

const FORGET_HELP = `
Only a silent node can be forgotten. A node that was only away is not harmed: it
is listed again after its next report, and drops what was purged meanwhile.
`;
