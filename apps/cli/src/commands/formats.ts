import type { Format } from '@mds/client';
import type { Command } from 'commander';
import type { Context } from '../context.ts';

/** `mds formats`: the formats accepted on ingest. */
export function registerFormats(program: Command, context: () => Context): void {
  program
    .command('formats')
    .description('list the formats accepted on ingest')
    .action(() => listFormats(context()));
}

async function listFormats(context: Context): Promise<void> {
  const client = await context.client();
  const list = await client.formats.list({ signal: context.io.signal });
  context.list<Format>({
    rows: list.data,
    columns: [
      { title: 'ID', text: ({ id }) => id },
      { title: 'KIND', text: ({ kind }) => kind },
      { title: 'CONTAINER', text: ({ container }) => container, shrinkTo: 9, expendable: 1 },
      { title: 'EXTENSIONS', text: ({ extensions }) => extensions.join(' '), shrinkTo: 10 },
      { title: 'CODECS', text: codecNames, shrinkTo: 10 },
    ],
    json: list,
    empty: 'This deployment accepts no format: its engine failed its own test. See mds status.',
  });
}

function codecNames({ codecs }: Format): string {
  return [...new Set([codecs.image, codecs.video, codecs.audio].flatMap((names) => names ?? []))].join(' ');
}
