import type { MediaStatus } from '@mds/client';
import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { DownloadArguments } from '../media/download-media.ts';
import type { ListArguments } from '../media/list-media.ts';
import type { UrlArguments } from '../media/media-url.ts';
import { positiveCount } from './arguments.ts';
import { listByDefault } from './list-by-default.ts';

/** `mds media`: the media objects of the service. */
export function registerMedia(program: Command, context: () => Context): void {
  const media = program
    .command('media')
    .description('media: list, inspect, explain, download, retry, delete (default: list)');
  listByDefault(media);

  media
    .command('list', { isDefault: true })
    .description('list media, newest first')
    .option('--limit <count>', 'how many', positiveCount, 25)
    .option('--all', 'all of them')
    .option('--cursor <cursor>', "continue after an earlier page's next_cursor")
    .option('--detail', 'also show file names and failures (needs a token)')
    .addOption(new Option('--status <status>', 'only this state (needs a token; implies --detail)').choices(STATES))
    .addHelpText('after', LIST_HELP)
    .action(async (options: ListArguments) => {
      const { listMedia } = await import('../media/list-media.ts');
      return listMedia(context(), options);
    });

  media
    .command('get')
    .description('show a media object in detail (needs a token)')
    .argument('<id>', 'med_…')
    .action(async (id: string) => {
      const { showMedia } = await import('../media/show-media.ts');
      return showMedia(context(), id);
    });

  media
    .command('explain')
    .description('explain a media object: what the file is, what was planned, every attempt (needs a token)')
    .argument('<id>', 'med_…')
    .option('--all', 'every attempt, with the full command line of every program')
    .addHelpText('after', EXPLAIN_HELP)
    .action(async (id: string, options: { all?: boolean }) => {
      const { explainMedia } = await import('../explain/explain-media.ts');
      return explainMedia(context(), id, options.all === true);
    });

  media
    .command('url')
    .description('print the URL of a rendition, or of all')
    .argument('<id>', 'med_…')
    .argument('[name]', 'a rendition: thumb, medium, poster, mp4, hls… (default: all)')
    .option('--ext <extension>', 'format (default: the service chooses by Accept)')
    .option('--revision <revision>', 'this revision, cached for ever (images also need --ext)')
    .option('--srcset', 'print the value of an <img srcset>')
    .addHelpText('after', '\nExit code 3 if the rendition does not exist. The error then lists the ones that do.\n')
    .action(async (id: string, name: string | undefined, options: UrlArguments) => {
      const { printUrls } = await import('../media/media-url.ts');
      return printUrls(context(), id, name, options);
    });

  media
    .command('download')
    .description('download a rendition')
    .argument('<id>', 'med_…')
    .argument('[name]', 'a rendition (default: the largest for this kind of media object)')
    .option('--ext <extension>', 'format, if the rendition has several')
    .option('-o, --output <path>', 'file to write, or - for standard output (default: ID-NAME.EXT)')
    .option('--force', 'overwrite an existing file')
    .action(async (id: string, name: string | undefined, options: DownloadArguments) => {
      const { downloadMedia } = await import('../media/download-media.ts');
      return downloadMedia(context(), id, name, options);
    });

  media
    .command('retry')
    .description('process again what failed (needs a token)')
    .argument('<id...>', 'med_…')
    .option('--wait', 'wait until all files are processed; exit with 1 if processing fails')
    .action(async (ids: string[], options: { wait?: boolean }) => {
      const { retryMedia } = await import('../media/retry-media.ts');
      return retryMedia(context(), ids, options.wait === true);
    });

  media
    .command('delete')
    .description('delete media with all their renditions (needs a token)')
    .argument('<id...>', 'med_…')
    .option('-y, --yes', 'do not ask (required without a terminal)')
    .action(async (ids: string[], options: { yes?: boolean }) => {
      const { deleteMedia } = await import('../media/delete-media.ts');
      return deleteMedia(context(), ids, options.yes === true);
    });
}

/** Listed here, because `mds --help` must not load the contract. */
const STATES = ['queued', 'processing', 'ready', 'failed'] as const satisfies readonly MediaStatus[];

const LIST_HELP = `
In a pipe: id, status, type, bytes, WIDTHxHEIGHT, created_at, and with --detail
the file name, the duration in seconds, the progress from 0 to 1, and the failed
renditions of a ready media object, tab-separated. With --json: the API's list
envelope. Several pages are joined into one, with the next_cursor of the last.
`;

const EXPLAIN_HELP = `
On a terminal: the latest attempt with its steps, and the command line of a step
that failed; earlier attempts in a few lines. Commands are quoted for a shell,
with names in place of paths. In a pipe: one fact a line, its name first,
tab-separated; long lists in commands are shortened unless --all is given. With
--json: the API's document.
`;
