import type { MediaDetail, MediaRendition } from '@mds/client';
import type { Context } from '../context.ts';
import { type Colours, colourState } from '../output/colours.ts';
import { displayWidth } from '../output/display-width.ts';
import { printable } from '../output/printable.ts';
import { humanAge, humanBytes, playingTime } from '../output/quantities.ts';
import { type Column, tableLines, tabSeparated } from '../output/table.ts';
import { colourMediaState, stateOf } from './media-state.ts';

/** Shows the properties of a media object, then its renditions. */
export async function showMedia(context: Context, id: string): Promise<void> {
  const client = await context.operator();
  const media = await client.control.media.get(id, { signal: context.io.signal });
  if (context.json) return context.printJson(media);
  if (!context.interactive) {
    for (const [name, value] of plainFacts(media)) context.print(`${name}\t${printable(value)}`);
    for (const line of tabSeparated(PLAIN_COLUMNS, media.renditions)) context.print(`rendition\t${line}`);
    return;
  }
  const { colours } = context;
  for (const [name, value] of humanFacts(context, media)) context.print(`${colours.bold(name.padEnd(9))}  ${value}`);
  if (media.renditions.length === 0) return;
  context.print('');
  for (const line of renditionLines(context, media)) context.print(line);
}

/** The renditions as a table. It includes URLs only if they fit: a shortened URL is useless. */
function renditionLines({ colours, width }: Context, { id, renditions }: MediaDetail): string[] {
  const columns = sizeColumns(colours, renditions);
  const table = (last: Column<MediaRendition>[], maxWidth: number) =>
    tableLines([...columns, ...last], renditions, maxWidth, colours.bold);
  const isExcused = renditions.some(({ reason }) => reason !== null);
  const title = isExcused ? 'ADDRESS OR REASON' : 'ADDRESS';
  const address: Column<MediaRendition> = { title, text: ({ url }) => url };
  const widest = Math.max(...table([address], Number.POSITIVE_INFINITY).map(displayWidth));
  if (widest <= width) return table([{ ...address, text: ({ reason, url }) => reason ?? url, shrinkTo: 20 }], width);
  const why: Column<MediaRendition> = { title: 'REASON', text: ({ reason }) => reason ?? '', shrinkTo: 20 };
  const hints = [`Addresses: mds media url ${id}`, ...(isExcused ? [`Full reasons: mds media explain ${id}`] : [])];
  return [
    ...table(isExcused ? [why] : [], width).map((line) => line.trimEnd()),
    '',
    ...hints.map((hint) => colours.dim(printable(hint))),
  ];
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
  facts.push(['status', colourMediaState(colours, media, printable(stateOf(media))) + attempts]);
  if (media.error) {
    facts.push(['error', colours.red(printable(`${media.error.message} (${media.error.code})`))]);
    facts.push(['', colours.dim(printable(`details: mds media explain ${media.id}`))]);
    if (media.error.retryable) facts.push(['', colours.dim(printable(`retry: mds media retry ${media.id}`))]);
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

function sizeColumns(colours: Colours, renditions: readonly MediaRendition[]): Column<MediaRendition>[] {
  const columns: Column<MediaRendition>[] = [
    { title: 'RENDITION', text: ({ name, extension }) => `${name}.${extension}` },
    { title: 'STATE', text: ({ state }) => state, colour: (text) => colourState(colours, text) },
    { title: 'SIZE', text: ({ bytes }) => (bytes === null ? '-' : humanBytes(bytes)), align: 'right' },
    { title: 'PIXELS', text: (rendition) => pixels(rendition) || '-', align: 'right', expendable: 1 },
  ];
  if (!renditions.some(({ files }) => (files ?? 0) > 1)) return columns;
  return [...columns, { title: 'FILES', text: ({ files }) => String(files ?? '-'), align: 'right', expendable: 2 }];
}

/** New columns come last: scripts count fields. */
const PLAIN_COLUMNS: Column<MediaRendition>[] = [
  { title: 'RENDITION', text: ({ name, extension }) => `${name}.${extension}` },
  { title: 'STATE', text: ({ state }) => state },
  { title: 'SIZE', text: ({ bytes }) => plainValue(bytes) },
  { title: 'PIXELS', text: pixels },
  { title: 'ADDRESS OR REASON', text: ({ reason, url }) => reason ?? url },
  { title: 'FILES', text: ({ files }) => plainValue(files) },
];

/** Empty for files without pixels: audio playlists, text. */
function pixels({ width, height }: MediaRendition): string {
  return width && height ? `${width}x${height}` : '';
}
