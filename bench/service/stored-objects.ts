import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { link, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { json } from 'node:stream/consumers';
import type { Need } from '../benchmark.ts';
import { cached } from '../cache.ts';
import { root } from '../needs.ts';
import { schemaKey } from './media-rows.ts';

const filler = 'apps/server/test/support/data-dir-filler.ts';
/** Change this number to make all folders anew. */
const VERSION = 2;

/** A rendition to be delivered; the seed decides its bytes. */
export interface RenditionToStore {
  readonly name: string;
  readonly extension: string;
  readonly contentType: string;
  readonly bytes: number;
  readonly seed: string;
}

/** A rendition that the service on the data folder delivers. */
export interface StoredRendition {
  /** Delivery path. */
  readonly path: string;
  /** The object's file, below the data folder. */
  readonly file: string;
  readonly bytes: number;
  /** Lower-case hex. */
  readonly sha256: string;
  readonly contentType: string;
}

/** A data folder with renditions that are ready for delivery. */
export interface StoredObjects {
  readonly dataDir: string;
  /** The same files under their delivery paths, for a file server. */
  readonly wwwDir: string;
  /** In the order given. */
  readonly renditions: readonly StoredRendition[];
}

/** The program that adds rows and objects through the service's own repositories and store. */
export const dataDirFiller: Need = { file: filler, hint: 'it belongs to the repository.' };

/** A data folder with media that have these renditions, made once and kept. A new migration makes it anew. */
export async function dataDirWithObjects(
  name: string,
  media: readonly { readonly renditions: readonly RenditionToStore[] }[],
  progress: (message: string) => void,
): Promise<StoredObjects> {
  const path = await cached(`objects-${name}-${VERSION}-${schemaKey()}`, async (folder) => {
    progress('storing the objects (once)');
    const renditions = await fill(join(folder, 'data'), media);
    for (const { path, file } of renditions) {
      const served = join(folder, 'www', path);
      await mkdir(dirname(served), { recursive: true });
      await link(join(folder, 'data', file), served);
    }
    await writeFile(join(folder, 'renditions.json'), JSON.stringify(renditions));
  });
  const renditions = JSON.parse(await readFile(join(path, 'renditions.json'), 'utf8')) as StoredRendition[];
  return { dataDir: join(path, 'data'), wwwDir: join(path, 'www'), renditions };
}

async function fill(dataDir: string, media: unknown): Promise<StoredRendition[]> {
  const args = ['--conditions=@mds/source', '--import', 'tsx', join(root, filler), dataDir];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  child.stdin.end(JSON.stringify(media));
  const renditions = json(child.stdout).catch((cause: unknown) => {
    throw new Error('The data folder could not be filled.', { cause });
  });
  const [code] = await exited;
  if (code !== 0) throw new Error(`The data folder could not be filled: ${filler} ended with ${code}.`);
  return (await renditions) as StoredRendition[];
}
