import { expect, it } from 'vitest';
import { mdsHere, plain } from './run-cli.ts';
import { scriptRegions } from './scripted-regions.ts';
import { mediaObject, sendProblem, startService, TOKEN } from './scripted-service.ts';

const id = mediaObject(1).id;

async function setUp() {
  const service = await startService();
  const script = scriptRegions(service);
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN };
  return {
    service,
    script,
    purge: (args: string[], options: Partial<Parameters<typeof mdsHere>[1]> = {}) =>
      mdsHere(['cache', 'purge', ...args], { env, ...options }),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

it('purges a media object, a path, a URL of media url, or everything', async () => {
  await using it = await setUp();
  await it.purge(['--media', id]);
  await it.purge(['--path', `/media/${id}/thumb.webp`]);
  await it.purge(['--path', `${it.service.url}/media/${id}/medium`]);
  // A URL copied from a page of a point of presence.
  await it.purge(['--path', `https://edge.example.org:8443/media/${id}/thumb.webp?v=2#top`]);
  await it.purge(['--everything', '--wait', '30']);
  expect(it.script.purges).toEqual([
    { media_id: id },
    { path: `/media/${id}/thumb.webp` },
    { path: `/media/${id}/medium` },
    { path: `/media/${id}/thumb.webp` },
    { everything: true },
  ]);
  expect(it.service.requests.slice(3)).toEqual([
    'POST /control/v1/cache/purge?wait=5',
    'POST /control/v1/cache/purge?wait=30',
  ]);
});

it('prints a receipt for each node, and ends with 0 if every node has purged', async () => {
  await using it = await setUp();
  const lines = 'fra1\torigin:4f1c9a02\tpurged\nams1\tedge-1:a\tpurged\n';
  expect(await it.purge(['--media', id])).toEqual({ code: 0, stdout: lines, stderr: '2 nodes: 2 purged\n' });
  expect(await it.purge(['--media', id, '--quiet'])).toEqual({ code: 0, stdout: lines, stderr: '' });
  expect(JSON.parse((await it.purge(['--media', id, '--json'])).stdout)).toEqual(it.script.result);
  const { stdout } = await it.purge(['--media', id], { terminal: 80 });
  expect(plain(stdout).split('\n')).toEqual([
    'REGION  NODE             STATE',
    'fra1    origin:4f1c9a02  purged',
    'ams1    edge-1:a         purged',
    '',
  ]);
});

it('ends with 1 and names the nodes if some may still hold the files', async () => {
  await using it = await setUp();
  it.script.result.complete = false;
  it.script.result.receipts.push(
    { region: 'ams1', node: 'edge-2:b', state: 'pending' },
    { region: 'sin1', node: 'edge-3:c', state: 'silent' },
  );
  const people = await it.purge(['--everything'], { terminal: 80 });
  expect(people.code).toBe(1);
  expect(plain(people.stdout)).toContain('\nsin1    edge-3:c         silent\n');
  expect(plain(people.stderr)).toContain(
    '4 nodes: 2 purged, 1 pending, 1 silent\nA silent node drops it when it reaches its origin again. If a node is gone for good: mds regions forget NODE\n',
  );
  const quiet = await it.purge(['--everything', '-q']);
  expect([quiet.code, quiet.stderr]).toEqual([1, 'error: Not every node has dropped it yet.\n']);
  const json = await it.purge(['--everything', '--json']);
  expect([json.code, JSON.parse(json.stdout)]).toEqual([1, it.script.result]);
});

it.each([
  [[], 'One of --media, --path and --everything is needed'],
  [['--media', id, '--everything'], 'cannot be used with'],
  [['--path', '/media/x', '--media', id], 'cannot be used with'],
  [['--everything', '--wait', '31'], 'from 0 to 30'],
  [['--path', '/api/v1/media'], 'is neither a delivery path'],
  [['--path', 'https://elsewhere.example/x/thumb.webp'], 'is neither a delivery path'],
  [['--media', 'nope'], 'It must be med_ and 26 lower-case letters and digits'],
  [['med_1'], 'too many arguments'],
])('%j is wrong usage and purges nothing', async (args, message) => {
  await using it = await setUp();
  const { code, stdout, stderr } = await it.purge(args);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(message);
  expect(it.service.requests).toEqual([]);
});

it('draws the wait for nodes on a terminal and removes it at the end', async () => {
  await using it = await setUp();
  it.service.on('POST /control/v1/cache/purge', async (request, response) => {
    request.resume();
    await new Promise((resolve) => setTimeout(resolve, 400));
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(it.script.result));
  });
  const { stderr } = await it.purge(['--everything'], { terminal: 80 });
  expect(plain(stderr)).toContain('Waiting for the nodes, 5s at most\n');
  expect(stderr.split('\x1b[J').map(plain).at(-1)).toBe('2 nodes: 2 purged\n');
});

it('ends with 3 and the reason if there is nothing to purge, to reveal typing errors', async () => {
  await using it = await setUp();
  it.service.on('POST /control/v1/cache/purge', (_, response) =>
    sendProblem(response, 404, 'rendition_not_found', 'The media object has no typo.webp.'),
  );
  expect(await it.purge(['--path', `/media/${id}/typo.webp`])).toEqual({
    ...{ code: 3, stdout: '' },
    stderr: 'error: The media object has no typo.webp. (rendition_not_found, request req-1)\n',
  });
});
