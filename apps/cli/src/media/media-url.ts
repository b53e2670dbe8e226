import { extname } from 'node:path';
import { type Client, isNotFoundError, type ManifestRendition } from '@mds/client';
import type { Context } from '../context.ts';
import { noSuchRendition } from './no-such-rendition.ts';

/** The options of `mds media url`, parsed. */
export interface UrlArguments {
  ext?: string;
  revision?: string;
  srcset?: boolean;
}

/**
 * Prints the address of one rendition, those of all that the manifest names, or a srcset.
 * @throws CliError where what was named is not there, with what is
 */
export async function printUrls(
  context: Context,
  id: string,
  name: string | undefined,
  options: UrlArguments,
): Promise<void> {
  const client = await context.client();
  const { ext, srcset } = options;
  if (name !== undefined && !srcset) {
    const url = await addressOf(client, id, name, options, context.io.signal);
    if (context.json) context.printJson({ url });
    else context.print(url);
    return;
  }
  const manifest = await client.manifest(id, { signal: context.io.signal });
  if (srcset) {
    const value = client.srcset(manifest, { extension: ext });
    if (context.json) context.printJson({ srcset: value });
    else context.print(value);
    return;
  }
  context.list<ManifestRendition>({
    rows: manifest.renditions.filter(({ extension }) => ext === undefined || extension === ext),
    columns: [
      { title: 'RENDITION', text: ({ name: rendition, extension }) => `${rendition}.${extension}` },
      // Never shortened: an address with a piece missing is none.
      { title: 'ADDRESS', text: ({ url }) => (url.startsWith('/') ? client.baseUrl + url : url) },
    ],
    json: manifest,
    empty: 'Nothing has been rendered yet.',
  });
}

/** The address of a rendition that is there; of its own format, where it is no picture that the service chooses one for. */
async function addressOf(
  client: Client,
  id: string,
  name: string,
  { ext, revision }: UrlArguments,
  signal: AbortSignal,
): Promise<string> {
  // What cannot be an address is said before anything is asked.
  const url = client.url(id, name, { extension: ext, revision });
  const manifest = await client.manifest(id, { signal }).catch((error: unknown) => {
    // Of a video that is still processed some renditions are there already.
    if (isNotFoundError(error) && error.code === 'rendition_not_ready') return null;
    throw error;
  });
  if (manifest === null) return reached(client, url, signal);
  const own = extname(new URL(url).pathname).slice(1);
  const extension = ext ?? (own === '' ? undefined : own);
  const found = manifest.renditions.filter(
    (it) => it.name === name && (extension === undefined || it.extension === extension),
  );
  const [first] = found;
  // An earlier revision is in no manifest, and delivered to whoever holds its address.
  if (revision !== undefined && !first?.immutable_url.includes(`.${revision}`)) return reached(client, url, signal);
  if (!first) throw noSuchRendition(manifest, name, ext);
  if (extension !== undefined || found.some((it) => it.content_type.startsWith('image/'))) return url;
  return client.url(id, name, { extension: first.extension });
}

/** @throws NotFoundError where nothing is delivered at the address, with the service's reason */
async function reached(client: Client, url: string, signal: AbortSignal): Promise<string> {
  const { body } = await client.download(url, { headers: { range: 'bytes=0-0' }, signal });
  await body?.cancel();
  return url;
}
