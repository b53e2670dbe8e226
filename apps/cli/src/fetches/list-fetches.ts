import type { FetchStatus, UrlFetch } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { listPages, type PageArguments } from '../output/list-pages.ts';
import { humanAge, humanBytes, percent } from '../output/quantities.ts';
import { shortMessage } from '../output/short-message.ts';
import { shownUrl } from '../output/shown-url.ts';
import type { Column } from '../output/table.ts';

/** The options of `mds fetches list`, parsed. */
export interface FetchListArguments extends PageArguments {
  status?: FetchStatus;
}

/** Lists fetches, newest first. */
export async function listFetches(context: Context, options: FetchListArguments): Promise<void> {
  const client = await context.operator();
  const { status } = options;
  const { signal } = context.io;
  await listPages(
    context,
    options,
    (page) => client.control.fetches.list({ ...page, status, signal }),
    columnsOf(context),
    'No fetches. Start one with mds ingest URL.',
  );
}

function columnsOf({ colours, interactive }: Context): Column<UrlFetch>[] {
  const now = Date.now();
  const received: Column<UrlFetch> = {
    title: 'RECEIVED',
    text: ({ received_bytes: bytes, total_bytes: total }) => (total ? percent(bytes / total) : humanBytes(bytes)),
    plain: ({ received_bytes: bytes }) => String(bytes),
    align: 'right',
  };
  const size: Column<UrlFetch> = {
    title: 'SIZE',
    text: ({ total_bytes: total }) => (total === null ? '-' : humanBytes(total)),
    plain: ({ total_bytes: total }) => String(total ?? ''),
    align: 'right',
    expendable: 1,
  };
  const columns: Column<UrlFetch>[] = [
    { title: 'ID', text: ({ id }) => id },
    { title: 'STATUS', text: ({ status }) => status, colour: (text, { status }) => colourState(colours, status, text) },
    ...[received, size],
    {
      title: 'AGE',
      text: ({ created_at: at }) => humanAge(at, now),
      plain: ({ created_at: at }) => at,
      align: 'right',
      expendable: 2,
    },
    { title: 'FROM', text: ({ source_url: url }) => shownUrl(url), shrinkTo: 12, keep: 'end' },
  ];
  if (interactive) return columns;
  return [
    ...columns,
    { title: 'MEDIA', text: ({ media_id: id }) => id ?? '' },
    { title: 'ERROR', text: ({ error }) => (error ? `${shortMessage(error.message)} (${error.code})` : '') },
  ];
}
