import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PurgeResult } from '@mds/client';
import { expect, it } from 'vitest';
import { png } from '../../server/test/support/pictures.ts';
import { type ServiceProcess, spawnService } from '../../server/test/support/service-process.ts';
import { mdsHere, temporaryFolder } from './run-cli.ts';

/** A complete service with a point of presence, as an operator starts them, and the command. */
async function setUp() {
  const folder = await temporaryFolder();
  const started: ServiceProcess[] = [];
  const stop = async () => {
    await Promise.all(started.map((service) => service.end('SIGKILL')));
    await folder[Symbol.asyncDispose]();
  };
  const start = async (name: string, env: Record<string, string>) => {
    try {
      const service = await spawnService({ dataDir: join(folder.path, name), env });
      started.push(service);
      return service;
    } catch (error) {
      await stop();
      throw error;
    }
  };
  const origin = await start('origin', { MDS_REGION: 'fra1' });
  const edge = await start('edge', {
    ...{ MDS_ROLES: 'edge', MDS_REGION: 'ams1' },
    ...{ MDS_ORIGIN_URL: origin.url, MDS_CONTROL_TOKEN: origin.token },
  });
  const env = { MDS_URL: origin.url, MDS_TOKEN: origin.token };
  const mds = (...args: string[]) => mdsHere(args, { env });
  return {
    ...{ origin, edge, mds },
    folder: folder.path,
    fields: async (...args: string[]) =>
      (await mds(...args)).stdout
        .split('\n')
        .slice(0, -1)
        .map((line) => line.split('\t')),
    [Symbol.asyncDispose]: stop,
  };
}

it('manages the regions of a real service, and purges all of its caches', async () => {
  await using it = await setUp();
  await expect
    .poll(async () => (await it.fields('regions', '--all')).map(([code, , , , status]) => [code, status]), {
      timeout: 30_000,
    })
    .toEqual([
      ['ams1', 'operational'],
      ['fra1', 'operational'],
    ]);

  expect(await it.mds('regions', 'add', 'tyo1')).toMatchObject({ code: 0, stdout: 'tyo1\tadded\t\n' });
  expect(await it.mds('regions', 'add', 'ulm1', '--name', 'Ulm')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--zone is needed'),
  });
  expect((await it.fields('regions', 'list')).map(([code]) => code)).toEqual(['ams1', 'fra1']);

  await it.mds('regions', 'maintain', 'ams1');
  expect((await it.fields('regions'))[0]?.[4]).toBe('under_maintenance');
  await it.mds('regions', 'maintain', 'ams1', '--off');
  expect((await it.fields('regions'))[0]?.[4]).toBe('operational');

  expect(await it.mds('regions', 'remove', 'ams1', '--yes')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('region_in_use'),
  });
  expect(await it.mds('regions', 'remove', 'tyo1', '--yes')).toMatchObject({ code: 0 });
  expect((await it.mds('regions', 'remove', 'tyo1', '--yes')).code).toBe(3);

  const purged = await it.mds('cache', 'purge', '--everything', '--wait', '20');
  expect(purged).toMatchObject({ code: 0, stderr: '2 nodes: 2 purged\n' });
  expect(purged.stdout).toMatch(/^fra1\t\S+\tpurged$/m);
  expect(purged.stdout).toMatch(/^ams1\t\S+\tpurged$/m);

  await writeFile(join(it.folder, 'a.png'), png(1, 800, 600));
  const ingested = await it.mds('ingest', '--wait', '--quiet', join(it.folder, 'a.png'));
  const id = ingested.stdout.split('\t')[0] ?? '';
  const paths = ['thumb', 'small'].map((name) => `/media/${id}/${name}.webp`);
  const nodes = [it.origin.url, it.edge.url];
  const cache = () =>
    Promise.all(
      nodes.map((url) =>
        Promise.all(paths.map(async (path) => (await fetch(url + path, { method: 'HEAD' })).headers.get('x-cache'))),
      ),
    );
  for (const url of nodes) for (const path of paths) await (await fetch(url + path)).arrayBuffer();
  expect(await cache()).toEqual(Array(2).fill(['HIT', 'HIT']));
  expect(await it.mds('cache', 'purge', '--path', `/media/${id}/typo.webp`)).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('rendition_not_found'),
  });
  expect((await it.mds('cache', 'purge', '--media', id.replace(/.{4}$/, '0000'))).code).toBe(3);
  expect(await cache()).toEqual(Array(2).fill(['HIT', 'HIT']));
  expect((await it.mds('cache', 'purge', '--path', `${it.edge.url}${paths[0]}`)).code).toBe(0);
  expect(await cache()).toEqual(Array(2).fill(['MISS', 'HIT']));

  await it.edge.end('SIGKILL');
  const missed = await it.mds('cache', 'purge', '--everything', '--wait', '0', '--json');
  expect(missed.code).toBe(1);
  const { complete, receipts } = JSON.parse(missed.stdout) as PurgeResult;
  expect([complete, receipts.find(({ region }) => region === 'fra1')?.state]).toEqual([false, 'purged']);
  expect(receipts.find(({ region }) => region === 'ams1')?.state).not.toBe('purged');

  // Gone for good: once it is silent it can be forgotten, and no purge waits for it any more.
  const [, node = ''] = purged.stdout.match(/^ams1\t(\S+)/m) ?? [];
  expect(await it.mds('regions', 'forget', node)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('node_alive'),
  });
  await expect
    .poll(async () => (await it.mds('regions', 'forget', node)).code, { timeout: 30_000, interval: 500 })
    .toBe(0);
  expect(await it.mds('cache', 'purge', '--everything')).toMatchObject({ code: 0, stderr: '1 node: 1 purged\n' });
}, 90_000);
