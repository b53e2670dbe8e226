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
 * Prints the URL of one rendition, the URLs of all renditions in the manifest, or a srcset.
 * @throws CliError if the rendition does not exist, with the ones that do
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
    const url = await renditionUrl(client, id, name, options, context.io.signal);
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
      // Never shortened: a shortened URL is useless.
      { title: 'ADDRESS', text: ({ url }) => (url.startsWith('/') ? client.baseUrl + url : url) },
    ],
    json: manifest,
    empty: 'Nothing has been rendered yet.',
  });
}

/** The URL of an existing rendition, with its own extension unless the service chooses an image format. */
async function renditionUrl(
  client: Client,
  id: string,
  name: string,
  { ext, revision }: UrlArguments,
  signal: AbortSignal,
): Promise<string> {
  // Throws for invalid arguments before any request is sent.
  const url = client.url(id, name, { extension: ext, revision });
  const manifest = await client.manifest(id, { signal }).catch((error: unknown) => {
    // Some renditions of a video are ready while it is still being processed.
    if (isNotFoundError(error) && error.code === 'rendition_not_ready') return null;
    throw error;
  });
  if (manifest === null) return checkDelivered(client, url, signal);
  const own = extname(new URL(url).pathname).slice(1);
  const extension = ext ?? (own === '' ? undefined : own);
  const found = manifest.renditions.filter(
    (it) => it.name === name && (extension === undefined || it.extension === extension),
  );
  const [first] = found;
  // Earlier revisions are in no manifest, but their URLs still work.
  if (revision !== undefined && !first?.immutable_url.includes(`.${revision}`))
    return checkDelivered(client, url, signal);
  if (!first) throw noSuchRendition(manifest, name, ext);
  if (extension !== undefined || found.some((it) => it.content_type.startsWith('image/'))) return url;
  return client.url(id, name, { extension: first.extension });
}

/** @throws NotFoundError if nothing is delivered at the URL, with the service's reason */
async function checkDelivered(client: Client, url: string, signal: AbortSignal): Promise<string> {
  const { body } = await client.download(url, { headers: { range: 'bytes=0-0' }, signal });
  await body?.cancel();
  return url;
}
