import type { Media, MediaDetail, MediaStatus } from '@mds/client';
import type { Context } from '../context.ts';
import { colourState } from '../output/colours.ts';
import { listPages, type PageArguments, type PageRequest } from '../output/list-pages.ts';
import { humanAge, humanBytes, playingTime } from '../output/quantities.ts';
import type { Column } from '../output/table.ts';
import { colourMediaState, failedNames, stateOf } from './media-state.ts';

/** The options of `mds media list`, parsed. */
export interface ListArguments extends PageArguments {
  detail?: boolean;
  status?: string;
}

/** Lists media, newest first, and reads as many pages as the limit needs. */
export async function listMedia(context: Context, options: ListArguments): Promise<void> {
  const { signal } = context.io;
  if (options.detail || options.status !== undefined) {
    const client = await context.operator();
    // The service checks the state, because a newer service may know more states.
    const status = options.status as MediaStatus | undefined;
    const fetchPage = (page: PageRequest) => client.control.media.list({ ...page, status, signal });
    return listPages(context, options, fetchPage, detailColumns(context), EMPTY);
  }
  const client = await context.client();
  const fetchPage = (page: PageRequest) => client.media.list({ ...page, signal });
  return listPages(context, options, fetchPage, mediaColumns(context), EMPTY);
}

const EMPTY = 'No media. Upload some with mds ingest.';

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
  // In a pipe, new columns come last: scripts count fields.
  if (!context.interactive) return [...mediaColumns(context), FILENAME, DURATION, PROGRESS, FAILED];
  const colour = (text: string, media: MediaDetail) => colourMediaState(context.colours, media, text);
  return [...mediaColumns<MediaDetail>(context, { text: stateOf, colour }), DURATION, FILENAME];
}

/** @param status how the state is shown to people */
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
