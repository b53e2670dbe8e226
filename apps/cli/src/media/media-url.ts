import type { ManifestRendition } from '@mds/client';
import type { Context } from '../context.ts';

/** The options of `mds media url`, parsed. */
export interface UrlArguments {
  ext?: string;
  revision?: string;
  srcset?: boolean;
}

/** Prints the address of one rendition, those of all that the manifest names, or a srcset. */
export async function printUrls(
  context: Context,
  id: string,
  name: string | undefined,
  { ext, revision, srcset }: UrlArguments,
): Promise<void> {
  const client = await context.client();
  if (name !== undefined && !srcset) {
    const url = client.url(id, name, { extension: ext, revision });
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
