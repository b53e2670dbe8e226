import type { Rendition } from '@mds/client';
import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { humanBitrate } from '../output/quantities.ts';
import { listByDefault } from './list-by-default.ts';

/** `mds renditions`: the presets. */
export function registerRenditions(program: Command, context: () => Context): void {
  const renditions = program.command('renditions').description('rendition presets (default: list)');
  listByDefault(renditions);
  renditions
    .command('list', { isDefault: true })
    .description('list the presets that are applied to every media object')
    .action(() => listRenditions(context()));
}

async function listRenditions(context: Context): Promise<void> {
  const client = await context.client();
  const list = await client.renditions.list({ signal: context.io.signal });
  context.list<Rendition>({
    rows: list.data,
    columns: [
      { title: 'NAME', text: ({ name }) => name },
      { title: 'EXT', text: ({ extension }) => extension },
      { title: 'OF', text: (preset) => preset.source_kinds.join(' '), shrinkTo: 5 },
      { title: 'BOX', text: box, align: 'right' },
      { title: 'QUALITY', text: ({ quality }) => text(quality), align: 'right', expendable: 2 },
      {
        title: 'BITRATE',
        text: ({ bitrate }) => (bitrate === null ? '-' : humanBitrate(bitrate)),
        plain: ({ bitrate }) => text(bitrate),
        align: 'right',
        expendable: 3,
      },
      { title: 'REVISION', text: ({ revision }) => revision },
      { title: 'TYPE', text: (preset) => preset.content_type, shrinkTo: 8, expendable: 1 },
    ],
    json: list,
    empty: 'This deployment has no presets.',
  });
}

function box({ width, height }: Rendition): string {
  return width === null && height === null ? '-' : `${width ?? ''}x${height ?? ''}`;
}

function text(value: number | null): string {
  return value === null ? '-' : String(value);
}
