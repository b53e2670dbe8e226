import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { build, type Metafile } from 'esbuild';
import { expect, it } from 'vitest';
import { createClient } from '../src/index.ts';
import { sendJson } from './http-server.ts';
import { startTusService } from './tus-service.ts';

const tusModules = () => Object.keys(createRequire(import.meta.url).cache).filter((path) => /tus-js-client/.test(path));

it('reading loads no upload code; the first upload loads it', async () => {
  await using service = await startTusService((request, response) => {
    if (!request.url?.startsWith('/api/v1/regions')) return false;
    sendJson(response, 200, { object: 'list', data: [] });
    return true;
  });
  const client = createClient({ baseUrl: service.url, token: 'secret' });
  await client.regions.list();
  expect(tusModules()).toEqual([]);
  await client.control.media.upload(new Blob(['content']));
  expect(tusModules()).not.toEqual([]);
});

it('the bundle of a page that only reads contains no upload code', async () => {
  const { metafile } = await build({
    stdin: {
      contents: `import { createClient } from '@mds/client';
        console.log(await createClient({ baseUrl: 'http://127.0.0.1' }).media.list());`,
      resolveDir: fileURLToPath(new URL('../../../apps/server', import.meta.url)),
    },
    ...{ bundle: true, splitting: true, format: 'esm', platform: 'browser', minify: true, outdir: 'out' },
    ...{ conditions: ['@mds/source'], write: false, metafile: true, logLevel: 'silent' },
  });
  const { loaded, later } = chunksOf(metafile);
  const holdsTus = (file: string) =>
    Object.keys(metafile.outputs[file]?.inputs ?? {}).some((it) => /tus-js-client/.test(it));
  expect(loaded.filter(holdsTus)).toEqual([]);
  expect(later.filter(holdsTus)).not.toEqual([]);
  const bytes = loaded.reduce((sum, file) => sum + (metafile.outputs[file]?.bytes ?? 0), 0);
  expect(bytes).toBeLessThan(64 * 1024);
});

/** The files that a page loads at once, and those that it loads on demand. */
function chunksOf({ outputs }: Metafile): { loaded: string[]; later: string[] } {
  const entry = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint === '<stdin>')?.[0] ?? '';
  const loaded = new Set<string>();
  const load = (file: string) => {
    if (loaded.has(file)) return;
    loaded.add(file);
    for (const { path, kind } of outputs[file]?.imports ?? []) if (kind === 'import-statement') load(path);
  };
  load(entry);
  return { loaded: [...loaded], later: Object.keys(outputs).filter((file) => !loaded.has(file)) };
}
