import { createWriteStream } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Client, Manifest, ManifestRendition } from '@mds/client';
import type { Context } from '../context.ts';
import { CliError, EXIT } from '../exit-codes.ts';
import { systemSentence } from '../explain-error.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { startTransfer, transferLine } from '../output/progress.ts';
import { counted, humanBytes } from '../output/quantities.ts';
import { shellCommand } from '../output/shell-quote.ts';
import { isBinary, writeAll } from '../output/stream-out.ts';
import { noSuchRendition } from './no-such-rendition.ts';

/** The options of `mds media download`, parsed. */
export interface DownloadArguments {
  ext?: string;
  output?: string;
  force?: boolean;
}

/** The preferred renditions if none is named, best first. */
const BEST: Readonly<Record<string, readonly string[]>> = {
  image: ['large', 'medium', 'small', 'thumb'],
  video: ['mp4', 'preview', 'poster'],
  audio: ['audio'],
};

/**
 * Downloads a rendition to standard output, or to a file that appears only when it is complete. The default file name uses only
 * values of this program: a name from outside must never decide where a file is written.
 */
export async function downloadMedia(
  context: Context,
  id: string,
  name: string | undefined,
  options: DownloadArguments,
): Promise<void> {
  const { io } = context;
  const client = await context.client();
  const manifest = await client.manifest(id, { signal: io.signal });
  const rendition = choose(manifest, name, options.ext);
  if (isStream(rendition)) throw notOneFile(client, manifest, rendition);
  const url = rendition.url;

  if (options.output === '-') {
    const response = await client.download(url, { signal: io.signal });
    if (context.interactive && isBinary(response.headers.get('content-type'))) {
      await response.body?.cancel();
      throw new CliError('This would write binary data to the terminal.', {
        exitCode: EXIT.usage,
        hints: ['Write it to a file with -o FILE, or use a pipe.'],
      });
    }
    return writeAll(io.stdout, response, { end: false, signal: io.signal });
  }

  const path = options.output ?? `${id}-${rendition.name}.${rendition.extension}`;
  const target = resolve(io.cwd, path);
  if (!options.force && (await exists(target))) {
    throw new CliError(`${path} already exists.`, {
      hints: ['Overwrite it with --force, or name another file with -o FILE.'],
    });
  }
  const response = await client.download(url, { signal: io.signal });
  const length = Number(response.headers.get('content-length') ?? rendition.bytes);
  const transfer = startTransfer(path, length);
  const block = createLiveBlock(context.progress, (width) => [
    transferLine(transfer, width, Date.now(), context.errorColours),
  ]);
  const partial = `${target}.partial-${process.pid}`;
  try {
    const file = createWriteStream(partial, { flags: 'wx' });
    await writeAll(file, response, { end: true, signal: io.signal }, (bytes) => {
      transfer.sentBytes += bytes;
    });
    await new Promise<void>((done, fail) => file.close((error) => (error ? fail(error) : done())));
    if (transfer.sentBytes !== length) {
      throw new CliError(`The download ended after ${transfer.sentBytes} of ${counted(length, 'byte')}.`);
    }
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined);
    if (!(error instanceof Error && 'path' in error && error.path === partial)) throw error;
    // The error names the temporary file, which the user does not know.
    throw new CliError(`It cannot be written: ${systemSentence(Object.assign(error, { path }))}`, {
      cause: error,
      hints: ['Name another file with -o FILE.'],
    });
  } finally {
    block.stop();
  }
  if (context.json) context.printJson({ path: target, url, bytes: length, content_type: rendition.content_type });
  else context.print(context.interactive ? `${path}  ${context.colours.dim(humanBytes(length))}` : path);
}

function choose(manifest: Manifest, name: string | undefined, extension: string | undefined): ManifestRendition {
  const fitting = manifest.renditions.filter((it) => extension === undefined || it.extension === extension);
  const names = name === undefined ? (BEST[manifest.kind] ?? []) : [name];
  for (const wanted of names) {
    const found = fitting.find((it) => it.name === wanted);
    if (found) return found;
  }
  const first = fitting.find((it) => !isStream(it)) ?? fitting[0];
  if (name === undefined && first) return first;
  throw noSuchRendition(manifest, name, extension);
}

/** Whether a rendition is a stream: its URL names a playlist of many files. */
function isStream({ extension }: ManifestRendition): boolean {
  return extension === 'm3u8';
}

function notOneFile(client: Client, { id, renditions }: Manifest, { name }: ManifestRendition): CliError {
  const url = client.url(id, name, { extension: 'm3u8' });
  const file = renditions.find(({ extension }) => extension === 'mp4' || extension === 'm4a');
  return new CliError(`${name} is a stream of many files: it can be played, but not downloaded as one file.`, {
    exitCode: EXIT.usage,
    hints: [
      `Open its URL in a player: ${url}`,
      `Or write it to one file with ffmpeg: ${shellCommand(['ffmpeg', '-i', url, '-c', 'copy', `${id}.mp4`])}`,
      ...(file ? [`Download a single file: mds media download ${id} ${file.name}`] : []),
    ],
  });
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}
