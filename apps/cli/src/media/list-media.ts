import type { Media, MediaDetail, MediaStatus, Page } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { humanAge, humanBytes, playingTime } from '../output/quantities.ts';
import { type Column, tabSeparated } from '../output/table.ts';
import { colourMediaState, failedNames, stateOf } from './media-state.ts';

/** The options of `mds media list`, parsed. */
export interface ListArguments {
  limit: number;
  all?: boolean;
  cursor?: string;
  detail?: boolean;
  status?: string;
}

const LARGEST_PAGE = 100;

/** Lists media, newest first; as many pages as the limit takes. */
export async function listMedia(context: Context, options: ListArguments): Promise<void> {
  const { signal } = context.io;
  if (options.detail || options.status !== undefined) {
    const client = await context.operator();
    // What the states are, the service knows; a newer one has more.
    const status = options.status as MediaStatus | undefined;
    const fetchPage = (page: PageRequest) => client.control.media.list({ ...page, status, signal });
    return show(context, options, fetchPage, detailColumns(context));
  }
  const client = await context.client();
  return show(context, options, (page) => client.media.list({ ...page, signal }), mediaColumns(context));
}

interface PageRequest {
  limit: number;
  cursor: string | undefined;
}

async function show<T extends Media>(
  context: Context,
  options: ListArguments,
  fetchPage: (page: PageRequest) => PromiseLike<Page<T>>,
  columns: readonly Column<T>[],
): Promise<void> {
  const streams = !context.interactive && !context.json;
  const rows: T[] = [];
  let missing = options.all ? Number.POSITIVE_INFINITY : options.limit;
  let page: Page<T>;
  let cursor: string | null | undefined = options.cursor;
  do {
    // No more than is missing, so that the last page's cursor goes on exactly where this list ends.
    page = await fetchPage({ limit: Math.min(missing, LARGEST_PAGE), cursor });
    missing -= page.data.length;
    cursor = page.next_cursor;
    // Lines go out as pages come in: a list of any length takes no more memory than a page.
    if (streams) for (const line of tabSeparated(columns, page.data)) context.print(line);
    else rows.push(...page.data);
  } while (cursor !== null && missing > 0);
  if (streams) return;
  context.list({
    columns,
    rows,
    json: { ...page, data: rows },
    empty: 'No media. Upload some with mds ingest.',
  });
  if (context.interactive && !context.json && cursor !== null) {
    context.note(context.errorColours.dim(`The newest ${rows.length}; there are more: --limit, --all.`));
  }
}

const FILENAME: Column<MediaDetail> = {
  title: 'FILENAME',
  text: ({ filename }) => filename ?? '',
  shrinkTo: 8,
  keep: 'end',
};

const DURATION: Column<MediaDetail> = {
  title: 'TIME',
  text: ({ duration }) => (duration === null ? '-' : playingTime(duration)),
  plain: ({ duration }) => (duration === null ? '' : String(duration)),
  align: 'right',
  expendable: 2,
};

const PROGRESS: Column<MediaDetail> = {
  title: 'PROGRESS',
  text: ({ progress }) => String(progress ?? ''),
};

const FAILED: Column<MediaDetail> = { title: 'FAILED', text: (media) => failedNames(media).join(' ') };

function detailColumns(context: Context): Column<MediaDetail>[] {
  // Elsewhere than on a terminal what was added later stands last: scripts count fields.
  if (!context.interactive) return [...mediaColumns(context), FILENAME, DURATION, PROGRESS, FAILED];
  const colour = (text: string, media: MediaDetail) => colourMediaState(context.colours, media, text);
  return [...mediaColumns<MediaDetail>(context, { text: stateOf, colour }), DURATION, FILENAME];
}

/** @param status how people see the state */
function mediaColumns<T extends Media>(
  { colours }: Context,
  status: Pick<Column<T>, 'text' | 'colour'> = {
    text: (media) => media.status,
    colour: (text, media) => colourState(colours, media.status, text),
  },
): Column<T>[] {
  const now = Date.now();
  return [
    { title: 'ID', text: ({ id }) => id },
    { title: 'STATUS', ...status, plain: (media) => media.status },
    { title: 'TYPE', text: (media) => media.content_type, shrinkTo: 9, expendable: 2 },
    {
      title: 'SIZE',
      text: ({ bytes }) => humanBytes(bytes),
      plain: ({ bytes }) => String(bytes),
      align: 'right',
      expendable: 1,
    },
    {
      title: 'PIXELS',
      text: ({ width, height }) => (width === 0 && height === 0 ? '-' : `${width}x${height}`),
      plain: ({ width, height }) => (width === 0 && height === 0 ? '' : `${width}x${height}`),
      align: 'right',
      expendable: 4,
    },
    {
      title: 'AGE',
      text: (media) => humanAge(media.created_at, now),
      plain: (media) => media.created_at,
      align: 'right',
      expendable: 3,
    },
  ];
}
