import type { MediaDetail, MediaRendition } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { printable } from '../output/printable.ts';
import { humanAge, humanBytes, playingTime } from '../output/quantities.ts';
import { type Column, tableLines, tabSeparated } from '../output/table.ts';
import { stateOf } from './media-state.ts';

/** Shows one medium: what is known about it, then its renditions. */
export async function showMedia(context: Context, id: string): Promise<void> {
  const client = await context.operator();
  const media = await client.control.media.get(id, { signal: context.io.signal });
  if (context.json) return context.printJson(media);
  if (!context.interactive) {
    for (const [name, value] of plainFacts(media)) context.print(`${name}\t${printable(value)}`);
    for (const line of tabSeparated(renditionColumns(context, media.renditions), media.renditions))
      context.print(`rendition\t${line}`);
    return;
  }
  const { colours } = context;
  for (const [name, value] of humanFacts(context, media)) context.print(`${colours.bold(name.padEnd(9))}  ${value}`);
  if (media.renditions.length === 0) return;
  context.print('');
  for (const line of tableLines(
    renditionColumns(context, media.renditions),
    media.renditions,
    context.width,
    colours.bold,
  ))
    context.print(line);
}

function plainFacts(media: MediaDetail): [string, string][] {
  const { renditions: _, error, warnings, codecs, ...rest } = media;
  const facts = Object.entries(rest).map(([name, value]): [string, string] => [name, plainValue(value)]);
  facts.push(['codecs', codecs.join(' ')]);
  for (const warning of warnings) facts.push(['warning', warning]);
  if (error) facts.push(['error', `${error.code}: ${error.message}`]);
  return facts;
}

function plainValue(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function humanFacts({ colours }: Context, media: MediaDetail): [string, string][] {
  const facts: [string, string][] = [['id', printable(media.id)]];
  if (media.filename !== null) facts.push(['file', printable(media.filename)]);
  const attempts = media.attempts > 1 ? colours.dim(` after ${media.attempts} attempts`) : '';
  facts.push(['status', colourState(colours, media.status, printable(stateOf(media))) + attempts]);
  if (media.error) {
    facts.push(['error', colours.red(printable(`${media.error.message} (${media.error.code})`))]);
    facts.push(['', colours.dim(printable(`what was tried: mds media explain ${media.id}`))]);
    if (media.error.retryable) facts.push(['', colours.dim(printable(`try again: mds media retry ${media.id}`))]);
  }
  for (const warning of media.warnings) facts.push(['warning', colours.yellow(printable(warning))]);
  const pixels = media.width > 0 ? `, ${media.width}x${media.height}` : '';
  const time = media.duration === null ? '' : `, ${playingTime(media.duration)}`;
  facts.push(['type', printable(`${media.content_type}, ${humanBytes(media.bytes)}${pixels}${time}`)]);
  if (media.codecs.length > 0) facts.push(['codecs', printable(media.codecs.join(' '))]);
  const age = humanAge(media.created_at, Date.now());
  facts.push(['created', printable(media.created_at) + colours.dim(age === 'now' ? '' : `  ${age} ago`)]);
  facts.push(['sha256', printable(media.sha256)]);
  return facts;
}

function renditionColumns(
  { colours, interactive }: Context,
  renditions: readonly MediaRendition[],
): Column<MediaRendition>[] {
  const files: Column<MediaRendition> = {
    title: 'FILES',
    text: (rendition) => String(rendition.files ?? '-'),
    plain: (rendition) => plainValue(rendition.files),
    align: 'right',
    expendable: 2,
  };
  const columns: Column<MediaRendition>[] = [
    { title: 'RENDITION', text: ({ name, extension }) => `${name}.${extension}` },
    { title: 'STATE', text: ({ state }) => state, colour: (text) => colourState(colours, text) },
    {
      title: 'SIZE',
      text: ({ bytes }) => (bytes === null ? '-' : humanBytes(bytes)),
      plain: ({ bytes }) => plainValue(bytes),
      align: 'right',
    },
    {
      title: 'PIXELS',
      text: ({ width, height }) => (width && height ? `${width}x${height}` : '-'),
      plain: ({ width, height }) => (width === null || height === null ? '' : `${width}x${height}`),
      align: 'right',
      expendable: 1,
    },
  ];
  const where: Column<MediaRendition> = {
    title: 'ADDRESS OR REASON',
    text: ({ reason, url }) => reason ?? url,
    shrinkTo: 20,
    keep: 'end',
  };
  // Elsewhere than on a terminal what was added later stands last: scripts count fields.
  if (!interactive) return [...columns, where, files];
  return renditions.some((rendition) => (rendition.files ?? 0) > 1) ? [...columns, files, where] : [...columns, where];
}
