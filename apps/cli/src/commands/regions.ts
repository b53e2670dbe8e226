import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';

/** `mds regions`: the points of presence. */
export function registerRegions(program: Command, context: () => Context): void {
  const regions = program.command('regions').description('points of presence');
  regions
    .command('list')
    .description('list the points of presence and their state')
    .action(() => listRegions(context()));
}

async function listRegions(context: Context): Promise<void> {
  const client = await context.client();
  const list = await client.regions.list({ signal: context.io.signal });
  context.list({
    rows: list.data,
    columns: [
      { title: 'CODE', text: ({ code }) => code },
      { title: 'NAME', text: ({ name }) => name, shrinkTo: 8 },
      { title: 'ZONE', text: ({ zone }) => zone, shrinkTo: 8 },
      { title: 'COUNTRY', text: ({ country }) => country },
      { title: 'STATUS', text: ({ status }) => status, colour: (text) => colourState(context.colours, text) },
    ],
    json: list,
    empty: 'No region has been served yet.',
  });
}
