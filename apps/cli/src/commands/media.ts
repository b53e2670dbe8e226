import type { MediaStatus } from '@mds/client';
import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { DownloadArguments } from '../media/download-media.ts';
import type { ListArguments } from '../media/list-media.ts';
import type { UrlArguments } from '../media/media-url.ts';
import { positiveCount } from './arguments.ts';
import { listsAlone } from './lists-alone.ts';

/** `mds media`: what was ingested. */
export function registerMedia(program: Command, context: () => Context): void {
  const media = program
    .command('media')
    .description('media: list, inspect, explain, download, retry, delete; alone it lists them');
  listsAlone(media);

  media
    .command('list', { isDefault: true })
    .description('list media, newest first')
    .option('--limit <count>', 'how many', positiveCount, 25)
    .option('--all', 'every one there is')
    .option('--cursor <cursor>', "go on after an earlier page's next_cursor")
    .option('--detail', "with the operator's view: file names and failures (needs a token)")
    .addOption(
      new Option('--status <status>', 'only those in this state (needs a token; implies --detail)').choices(STATES),
    )
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
    .description('tell why a media object is as it is: what it is, what was planned, every attempt (needs a token)')
    .argument('<id>', 'med_…')
    .option('--all', 'every attempt with the command line of every program, whole')
    .addHelpText('after', EXPLAIN_HELP)
    .action(async (id: string, options: { all?: boolean }) => {
      const { explainMedia } = await import('../explain/explain-media.ts');
      return explainMedia(context(), id, options.all === true);
    });

  media
    .command('url')
    .description('print the address of a rendition, or those of all')
    .argument('<id>', 'med_…')
    .argument('[name]', 'a rendition: thumb, medium, poster, mp4, hls… Without it, all that are there')
    .option('--ext <extension>', 'format; without it the service chooses by Accept')
    .option('--revision <revision>', 'that very revision, cached for ever (of pictures needs --ext)')
    .option('--srcset', 'print the value of an <img srcset>')
    .addHelpText('after', '\nExit code 3 if the rendition is not there; what is there is then said.\n')
    .action(async (id: string, name: string | undefined, options: UrlArguments) => {
      const { printUrls } = await import('../media/media-url.ts');
      return printUrls(context(), id, name, options);
    });

  media
    .command('download')
    .description('download a rendition')
    .argument('<id>', 'med_…')
    .argument('[name]', 'a rendition; without it the largest there is for the kind of media object')
    .option('--ext <extension>', 'format, where a rendition has several')
    .option('-o, --output <path>', 'file to write, - for standard output; default ID-NAME.EXT here')
    .option('--force', 'write over a file that is there')
    .action(async (id: string, name: string | undefined, options: DownloadArguments) => {
      const { downloadMedia } = await import('../media/download-media.ts');
      return downloadMedia(context(), id, name, options);
    });

  media
    .command('retry')
    .description('process again what failed (needs a token)')
    .argument('<id...>', 'med_…')
    .option('--wait', 'go on until they are processed; what fails then, fails here')
    .action(async (ids: string[], options: { wait?: boolean }) => {
      const { retryMedia } = await import('../media/retry-media.ts');
      return retryMedia(context(), ids, options.wait === true);
    });

  media
    .command('delete')
    .description('delete media with all their renditions (needs a token)')
    .argument('<id...>', 'med_…')
    .option('-y, --yes', 'do not ask; needed where there is no terminal to ask on')
    .action(async (ids: string[], options: { yes?: boolean }) => {
      const { deleteMedia } = await import('../media/delete-media.ts');
      return deleteMedia(context(), ids, options.yes === true);
    });
}

/** Spelled out here: `mds --help` loads no contract. */
const STATES = ['queued', 'processing', 'ready', 'failed'] as const satisfies readonly MediaStatus[];

const LIST_HELP = `
Elsewhere than on a terminal: id, status, type, bytes, WIDTHxHEIGHT, created_at,
and with --detail the file name, the duration in seconds, the progress from 0 to
1, and the renditions that failed of what is ready, tab-separated. With --json the API's envelope; more than one page comes as
one, with the next_cursor of the last.
`;

const EXPLAIN_HELP = `
On a terminal the latest attempt is told with its steps, and where it failed
with the command line of what did; those before it in a few lines. Commands are
quoted for a shell, with names in place of paths. Elsewhere one fact a line, its
name first, tab-separated; long lists in commands are shortened there, unless
--all is given. With --json the API's document.
`;
