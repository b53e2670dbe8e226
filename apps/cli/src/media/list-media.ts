import type { Media, MediaDetail, MediaStatus, Page } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { jsonText } from '../output/json.ts';
import { humanAge, humanBytes } from '../output/quantities.ts';
import { type Column, tabSeparated } from '../output/table.ts';

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
  const columns = mediaColumns(context);
  const wanted = options.all ? Number.POSITIVE_INFINITY : options.limit;
  const page = { limit: Math.min(wanted, LARGEST_PAGE), cursor: options.cursor, signal: context.io.signal };

  if (options.detail || options.status !== undefined) {
    const client = await context.operator();
    // What the states are, the service knows; a newer one has more.
    const status = options.status as MediaStatus | undefined;
    const list = client.control.media.list({ ...page, status });
    return show(context, list.pages(), wanted, [
      ...columns,
      {
        title: 'FILENAME',
        text: (media: MediaDetail) => media.filename ?? '',
        shrinkTo: 8,
        keep: 'end' as const,
      },
    ]);
  }
  const client = await context.client();
  return show(context, client.media.list(page).pages(), wanted, columns);
}

async function show<T extends Media>(
  context: Context,
  pages: AsyncIterable<Page<T>>,
  wanted: number,
  columns: readonly Column<T>[],
): Promise<void> {
  const streams = !context.interactive && !context.json;
  const rows: T[] = [];
  let envelope: Page<T> | null = null;
  let count = 0;
  for await (const page of pages) {
    envelope = page;
    const part = page.data.slice(0, wanted - count);
    count += part.length;
    // Lines go out as pages come in: a list of any length takes no more memory than a page.
    if (streams) for (const line of tabSeparated(columns, part)) context.print(line);
    else rows.push(...part);
    if (count >= wanted) break;
  }
  if (streams) return;
  if (context.json) {
    context.io.stdout.write(`${jsonText({ ...envelope, data: rows })}\n`);
    return;
  }
  context.list({ columns, rows, json: null, empty: 'No media. Upload some with mds ingest.' });
  if (envelope?.next_cursor)
    context.note(`${context.errorColours.dim(`The newest ${count}; --limit or --all for more.`)}`);
}

function mediaColumns({ colours }: Context): Column<Media>[] {
  const now = Date.now();
  return [
    { title: 'ID', text: ({ id }) => id },
    { title: 'STATUS', text: ({ status }) => status, colour: (text) => colourState(colours, text) },
    { title: 'TYPE', text: (media) => media.content_type, shrinkTo: 9 },
    { title: 'SIZE', text: ({ bytes }) => humanBytes(bytes), plain: ({ bytes }) => String(bytes), align: 'right' },
    {
      title: 'PIXELS',
      text: ({ width, height }) => (width === 0 && height === 0 ? '-' : `${width}x${height}`),
      plain: ({ width, height }) => `${width}\t${height}`,
      align: 'right',
      expendable: 2,
    },
    {
      title: 'AGE',
      text: (media) => humanAge(media.created_at, now),
      plain: (media) => media.created_at,
      align: 'right',
      expendable: 1,
    },
  ];
}
