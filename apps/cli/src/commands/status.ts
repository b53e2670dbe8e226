import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { humanAge } from '../output/quantities.ts';
import type { Column } from '../output/table.ts';

/** `mds status`: the state of the service and its components. */
export function registerStatus(program: Command, context: () => Context): void {
  program
    .command('status')
    .description('show the state of the service and its components')
    .addHelpText('after', '\nIn a pipe: name and state, tab-separated. The first line is the whole service.\n')
    .action(() => showStatus(context()));
}

async function showStatus(context: Context): Promise<void> {
  const { colours, io } = context;
  const client = await context.client();
  const status = await client.status({ signal: io.signal });
  const columns: Column<{ name: string; status: string }>[] = [
    { title: 'COMPONENT', text: ({ name }) => name, shrinkTo: 12 },
    { title: 'STATUS', text: (row) => row.status, colour: (text) => colourState(colours, text) },
  ];
  if (context.interactive && !context.json) {
    const age = humanAge(status.updated_at, Date.now());
    context.print(
      `${colourState(colours, status.status)}  ${colours.dim(`${status.region}, API ${status.version}, ${age === 'now' ? 'now' : `${age} ago`}`)}`,
    );
    context.print('');
  }
  context.list({
    columns,
    rows: context.interactive ? status.components : [{ name: 'service', status: status.status }, ...status.components],
    json: status,
    empty: 'The service names no components.',
  });
}
