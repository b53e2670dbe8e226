import { createServer } from 'node:http';
import { join } from 'node:path';
import { createClient } from '@mds/client';
import { expect, it } from 'vitest';
import { png } from '../../server/test/support/pictures.ts';
import { spawnService } from '../../server/test/support/service-process.ts';
import { mdsHere, plain, temporaryFolder } from './run-cli.ts';

/** A service that may or may not fetch from this machine, and a site with `/lake.png?key=…`. */
async function setUp(allow: string) {
  const folder = await temporaryFolder();
  const site = createServer((request, response) => {
    const isThere = request.url?.startsWith('/lake.png') === true;
    response.writeHead(isThere ? 200 : 404, { 'content-type': 'image/png' });
    response.end(isThere ? png(5) : '');
  });
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  const address = site.address();
  const service = await spawnService({
    dataDir: join(folder.path, 'data'),
    env: { MDS_ROLES: 'api', MDS_FETCH_ALLOW: allow },
  });
  return {
    site: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    client: createClient({ baseUrl: service.url, token: service.token }),
    ingest: (args: string[], terminal?: number) => {
      const env = { MDS_URL: service.url, MDS_TOKEN: service.token };
      return mdsHere(['ingest', ...args], { env, cwd: folder.path, ...(terminal && { terminal }) });
    },
    async [Symbol.asyncDispose]() {
      site.closeAllConnections();
      site.close();
      await service.end('SIGKILL');
      await folder[Symbol.asyncDispose]();
    },
  };
}

it('ingests a URL under the given name, and reports why a URL cannot be fetched', async () => {
  await using it = await setUp('127.0.0.0/8');
  const { code, stdout, stderr } = await it.ingest([`${it.site}/lake.png?key=1`, '--filename', 'a lake.png']);
  expect([code, stderr]).toEqual([0, '1 file: 1 created\n']);
  const { data } = await it.client.control.media.list();
  expect(data).toMatchObject([{ filename: 'a lake.png', bytes: png(5).byteLength }]);
  expect(stdout).toBe(`${data[0]?.id}\tcreated\tqueued\t${it.site}/lake.png\t\t\n`);

  const two = await it.ingest([`${it.site}/lake.png`, `${it.site}/nothing.png`]);
  expect(two.code).toBe(1);
  expect(two.stdout).toContain(`${data[0]?.id}\texisting\t`);
  expect(two.stdout).toMatch(/^\tfailed\t\t\S+\/nothing\.png\t.*404.* \(source_refused\)\t$/m);
  expect(plain((await it.ingest([`${it.site}/lake.png`], 80)).stdout)).toMatch(/^existing/);
});

it('reports that an address is refused because it is not public', async () => {
  await using it = await setUp('');
  const { code, stdout } = await it.ingest([`${it.site}/lake.png`]);
  expect([code, stdout]).toEqual([1, expect.stringContaining('(source_not_allowed)')]);
});
