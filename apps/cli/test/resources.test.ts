import { expect, it } from 'vitest';
import { mdsHere, plain } from './run-cli.ts';
import { sendJson, sendProblem, startService, TOKEN } from './scripted-service.ts';

const RESOURCES = {
  '/api/v1/status': {
    status: 'degraded_performance',
    version: 'v1',
    region: 'Frankfurt',
    components: [
      { name: 'API', status: 'operational' },
      { name: 'Teleporter', status: 'entangled' },
    ],
    updated_at: '2026-01-31T08:15:00Z',
  },
  '/api/v1/regions': {
    object: 'list',
    data: [{ code: 'fra1', name: 'Frankfurt', zone: 'europe-central', country: 'DE', status: 'operational' }],
  },
  '/api/v1/assets': {
    object: 'list',
    data: [
      {
        id: 'ast_01k0',
        created_at: '2026-01-31T08:15:00Z',
        path: '/media/x/thumb.webp',
        bytes: 1234,
        cache_status: 'HIT',
      },
    ],
  },
  '/api/v1/formats': {
    object: 'list',
    data: [
      {
        id: 'mp4',
        kind: 'video',
        container: 'mp4',
        extensions: ['mp4', 'm4v'],
        content_types: ['video/mp4'],
        codecs: { video: ['h264', 'hevc'], audio: ['aac'] },
      },
    ],
  },
  '/api/v1/renditions': {
    object: 'list',
    data: [
      {
        name: 'mp4',
        kind: 'video',
        source_kinds: ['video'],
        container: 'mp4',
        codecs: { video: ['h264'] },
        content_type: 'video/mp4',
        extension: 'mp4',
        width: 1280,
        height: 720,
        fit: 'inside',
        quality: null,
        bitrate: 2_800_000,
        revision: '0a1b2c3d',
        path: '/media/{id}/mp4.mp4',
      },
    ],
  },
};

async function setUp() {
  const service = await startService();
  for (const [path, body] of Object.entries(RESOURCES)) {
    service.on(`GET ${path}`, (_, response) => sendJson(response, 200, body));
  }
  service.on(
    'GET /healthz',
    (_, response) => void response.writeHead(200, { 'content-type': 'text/plain' }).end('ok \x1b[2J'),
  );
  return service;
}

it.each([
  [['status'], '/api/v1/status', 'service\tdegraded_performance\nAPI\toperational\nTeleporter\tentangled\n'],
  [['regions', 'list'], '/api/v1/regions', 'fra1\tFrankfurt\teurope-central\tDE\toperational\n'],
  [['assets', 'list'], '/api/v1/assets', 'ast_01k0\tHIT\t1234\t2026-01-31T08:15:00Z\t/media/x/thumb.webp\n'],
  [['formats'], '/api/v1/formats', 'mp4\tvideo\tmp4\tmp4 m4v\th264 hevc aac\n'],
  [['renditions', 'list'], '/api/v1/renditions', 'mp4\tmp4\tvideo\t1280x720\t-\t2800000\t0a1b2c3d\tvideo/mp4\n'],
] as const)('%j is a table for people, lines for programs, and JSON on request', async (args, path, lines) => {
  await using service = await setUp();
  const env = { MDS_URL: service.url };
  expect(await mdsHere(args, { env })).toEqual({ code: 0, stdout: lines, stderr: '' });
  expect(JSON.parse((await mdsHere([...args, '--json'], { env, terminal: 80 })).stdout)).toEqual(RESOURCES[path]);
  const table = plain((await mdsHere(args, { env, terminal: 80 })).stdout);
  expect(table).toMatch(/^([A-Z]+ +)+[A-Z]+$/m);
  for (const line of table.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
});

it.each(['media', 'assets', 'regions', 'renditions'])(
  '%s without a command lists, with the options of list',
  async (group) => {
    await using service = await setUp();
    const env = { MDS_URL: service.url };
    const listed = await mdsHere([group, 'list'], { env });
    expect(listed.code).toBe(0);
    expect(await mdsHere([group], { env })).toEqual(listed);
    expect((await mdsHere([group, '--json'], { env })).stdout).toContain('"object": "list"');
  },
);

it('assets list explains its columns and the option for one region', async () => {
  await using service = await setUp();
  const asset = RESOURCES['/api/v1/assets'].data[0];
  service.on('GET /api/v1/assets', (_, response) =>
    sendJson(response, 200, { object: 'list', data: [asset, { ...asset, id: 'ast_01k1' }] }),
  );
  const list = (...args: string[]) =>
    mdsHere(['assets', 'list', ...args], { env: { MDS_URL: service.url }, terminal: 100 });
  const both = await list();
  expect(plain(both.stdout)).toMatch(/^ID +CACHE +SIZE +FIRST SEEN +PATH$/m);
  expect(plain(both.stderr)).toBe('A path is listed once for each region. Use --region CODE for one region.\n');
  for (const args of [['--region', 'fra1'], ['-q']]) expect((await list(...args)).stderr).toBe('');
  expect((await list('--help')).stdout).toMatch(/FIRST SEEN: the first\s+request/);
});

it('assets list of an unknown region ends with 3, with advice', async () => {
  await using service = await setUp();
  service.on('GET /api/v1/assets', (_, response) =>
    sendProblem(response, 400, 'unknown_region', 'There is no region with this code.'),
  );
  expect(await mdsHere(['assets', '--region', 'zzz9'], { env: { MDS_URL: service.url } })).toEqual({
    ...{ code: 3, stdout: '' },
    stderr:
      'error: There is no region with this code. (unknown_region, request req-1)\n' +
      '  Known regions: mds regions list --all. Add a region with mds regions add.\n',
  });
});

it('assets list passes its options to the service', async () => {
  await using service = await setUp();
  await mdsHere(['assets', 'list', '--region', 'fra1', '--limit', '7'], { env: { MDS_URL: service.url } });
  expect(service.requests).toEqual(['GET /api/v1/assets?limit=7&region=fra1']);
});

it('api prints the answer of the service unchanged', async () => {
  await using service = await setUp();
  const env = { MDS_URL: service.url };
  expect((await mdsHere(['api', '/api/v1/regions'], { env })).stdout).toBe(
    JSON.stringify(RESOURCES['/api/v1/regions']),
  );
  expect((await mdsHere(['api', 'healthz'], { env })).stdout).toBe('ok \x1b[2J');
  expect((await mdsHere(['api', '/healthz'], { env, terminal: 80 })).stdout).toBe('ok \\x1b[2J\n');
  expect(await mdsHere(['api', '/healthz', '--json'], { env })).toMatchObject({ code: 1, stdout: '' });
  expect(await mdsHere(['api', '/nowhere'], { env })).toMatchObject({ code: 3, stdout: '' });
});

it('api sends the token to the control API only', async () => {
  await using service = await setUp();
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN };
  await mdsHere(['api', '/api/v1/regions'], { env });
  expect(service.headers().authorization).toBeUndefined();
  expect((await mdsHere(['api', '/control/v1/media?limit=1'], { env })).code).toBe(0);
  expect(service.headers().authorization).toBe(`Bearer ${TOKEN}`);
});
