import { afterEach, expect, it, vi } from 'vitest';
import { mdsHere, plain } from './run-cli.ts';
import { node, scriptRegions } from './scripted-regions.ts';
import { startService, TOKEN } from './scripted-service.ts';

afterEach(() => vi.useRealTimers());

async function setUp() {
  const service = await startService();
  const script = scriptRegions(service);
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN };
  return {
    service,
    ...script,
    mds: (args: string[], options: Partial<Parameters<typeof mdsHere>[1]> = {}) =>
      mdsHere(['regions', ...args], { env, ...options }),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

it('without a command it lists public regions without a token, as list does', async () => {
  await using it = await setUp();
  const listed = await it.mds(['list']);
  expect(listed.stdout).toBe(
    'fra1\tFrankfurt\teurope-central\tDE\toperational\nams1\tAmsterdam\teurope-west\tNL\tpartial_outage\n',
  );
  expect(it.service.headers().authorization).toBeUndefined();
  expect(await it.mds([])).toEqual(listed);
  expect((await it.mds(['--json'])).stdout).toContain('"object": "list"');
  expect(new Set(it.service.requests)).toEqual(new Set(['GET /api/v1/regions']));
});

it('reports an unknown command instead of listing regions', async () => {
  await using it = await setUp();
  for (const args of [['delete', 'fra1'], ['fra1']]) {
    const { code, stderr } = await it.mds(args);
    expect(code).toBe(2);
    expect(stderr).toContain(`unknown command '${args[0]}'\nThere are list, add, maintain, remove, forget.`);
  }
  expect((await it.mds(['forgt', 'x'])).stderr).toContain("unknown command 'forgt'\n(Did you mean forget?)");
  expect(it.service.requests).toEqual([]);
});

it('--all lists every region with a line for each node, complete lines in a pipe', async () => {
  await using it = await setUp();
  const { stdout } = await it.mds(['list', '--all']);
  const lines = stdout.split('\n').slice(0, -1);
  expect(lines.map((line) => line.split('\t').slice(0, 8))).toEqual([
    ['fra1', 'Frankfurt', 'europe-central', 'DE', 'operational', 'false', 'origin:4f1c9a02', 'alive'],
    ['ams1', 'Amsterdam', 'europe-west', 'NL', 'partial_outage', 'false', 'edge-1:a', 'alive'],
    ['ams1', 'Amsterdam', 'europe-west', 'NL', 'partial_outage', 'false', 'edge-2:b', 'silent'],
    ['sin1', 'Singapore', 'asia-southeast', 'SG', '', 'false', '', ''],
  ]);
  expect(lines[2]?.split('\t')[8]).toBe(it.regions[1]?.nodes[1]?.last_seen_at);
  const json = JSON.parse((await it.mds(['--all', '--json'])).stdout) as { data: unknown };
  expect(json.data).toEqual(it.regions);
});

it.each([80, 120])('--all fits a terminal of %i columns, and shows when each node was last seen', async (terminal) => {
  // Ages must not change, however slow the machine is.
  vi.useFakeTimers({ toFake: ['Date'], now: new Date('2026-01-31T08:15:00Z') });
  await using it = await setUp();
  it.regions[0]?.nodes.push(node('a-node-with-a-name-that-an-operator-gave-it-in-a-hurry:0123456789abcdef', 7200));
  Object.assign(it.regions[2] ?? {}, { maintenance: true });
  const { stdout } = await it.mds(['list', '--all'], { terminal });
  const lines = plain(stdout).trimEnd().split('\n');
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(terminal);
  expect(lines[0]).toMatch(/^CODE +NAME .*STATUS +NODE +HEARD +SEEN$/);
  expect(lines[1]).toMatch(/^fra1 +Frankfurt .*operational +origin:4f1c9a02 +alive +2s$/);
  expect(lines[2]).toMatch(/^ +….*cdef +silent +2h$/);
  expect(lines[4]).toMatch(/^ +edge-2:b +silent +1h$/);
  expect(lines[5]).toMatch(/^sin1 +Singapore .*not served \(maintenance\) +-/);
});

it('add needs only the code for a catalogue city, and all properties for others', async () => {
  await using it = await setUp();
  expect(await it.mds(['add', 'tyo1'])).toEqual({ code: 0, stdout: 'tyo1\tadded\t\n', stderr: '' });
  expect(await it.mds(['add', 'tyo1'])).toMatchObject({ code: 0, stdout: 'tyo1\tknown already\t\n' });
  expect(await it.mds(['add', 'ulm1', '--country', 'DE'])).toEqual({
    code: 2,
    stdout: '',
    stderr: 'error: ulm1 cannot be added with these options.\n  --name is needed\n  --zone is needed\n',
  });
  const ulm = ['add', 'ulm1', '--name', 'Ulm', '--zone', 'europe-central', '--country', 'DE'];
  const { stdout, stderr } = await it.mds(ulm, { terminal: 80 });
  expect(plain(stdout)).toBe('ulm1  added  Ulm, europe-central, DE\n');
  expect(plain(stderr)).toBe('It is listed publicly once a node serves it. Until then: mds regions list --all\n');
  expect((await it.mds([...ulm, '-q'], { terminal: 80 })).stderr).toBe('');
  expect(JSON.parse((await it.mds([...ulm, '--json'])).stdout)).toEqual(it.regions.at(-1));
  expect((await it.mds(ulm)).stdout).toBe('ulm1\tknown already\t\n');
  expect((await it.mds(['add', 'ulm1', '--name', 'Ulm an der Donau'])).stdout).toBe('ulm1\tchanged\t\n');
});

it('add --catalogue restores a catalogue entry, and refuses a city without one', async () => {
  await using it = await setUp();
  await it.mds(['add', 'tyo1', '--name', 'Edo']);
  expect((await it.mds(['add', 'tyo1', '--catalogue'])).stdout).toBe('tyo1\tchanged\t\n');
  expect(it.regions.at(-1)).toMatchObject({ name: 'Tokyo', zone: 'asia-northeast', country: 'JP' });
  expect((await it.mds(['add', 'tyo1', '--catalogue'])).stdout).toBe('tyo1\tknown already\t\n');
  await it.mds(['add', 'ulm1', '--name', 'Ulm', '--zone', 'europe-central', '--country', 'DE']);
  expect(await it.mds(['add', 'ulm1', '--catalogue'])).toEqual({
    ...{ code: 2, stdout: '' },
    stderr: 'error: The built-in catalogue has no ulm1.\n  Describe it with --name, --zone and --country.\n',
  });
  expect((await it.mds(['add', 'tyo1', '--catalogue', '--name', 'Edo'])).code).toBe(2);
});

it('forget removes a silent node, keeps a living one, and reports an unknown one', async () => {
  await using it = await setUp();
  expect(await it.mds(['forget', 'edge-2:b'])).toEqual({ code: 0, stdout: 'edge-2:b\tforgotten\n', stderr: '' });
  expect(it.regions[1]?.nodes.map(({ id }) => id)).toEqual(['edge-1:a']);
  expect(await it.mds(['forget', 'edge-2:b'])).toEqual({
    ...{ code: 3, stdout: '' },
    stderr:
      'error: There is no node edge-2:b. (node_not_found, request req-1)\n  Known nodes: mds regions list --all\n',
  });
  expect(await it.mds(['forget', 'edge-1:a'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('node_alive'),
  });
  it.regions[0]?.nodes.push(node('a/b', 900));
  const json = await it.mds(['forget', 'a/b', '--json']);
  expect(JSON.parse(json.stdout)).toEqual({ node: 'a/b', forgotten: true });
  expect((await it.mds(['forget', ''])).code).toBe(2);
});

it('an unknown region is reported with the commands that help', async () => {
  await using it = await setUp();
  for (const args of [
    ['maintain', 'nope1'],
    ['remove', 'nope1', '-y'],
  ]) {
    const { code, stderr } = await it.mds(args);
    expect([code, stderr]).toEqual([
      3,
      'error: There is no region nope1. (region_not_found, request req-1)\n' +
        '  Known regions: mds regions list --all. Add a region with mds regions add.\n',
    ]);
  }
});

it('maintain takes effect at once, --off ends it, and a mistyped code adds no region', async () => {
  await using it = await setUp();
  expect(await it.mds(['maintain', 'ams1'])).toMatchObject({ stdout: 'ams1\tmaintenance on\tunder_maintenance\n' });
  expect(it.regions[1]?.maintenance).toBe(true);
  expect((await it.mds(['maintain', 'ams1', '--off'])).stdout).toMatch(/^ams1\tmaintenance off\t/);
  expect(it.regions[1]?.maintenance).toBe(false);
  expect(await it.mds(['maintain', 'tyo1'])).toMatchObject({ code: 3, stdout: '' });
  expect(it.regions.map(({ code }) => code)).toEqual(['fra1', 'ams1', 'sin1']);
});

it('remove asks, and treats anything but yes as no', async () => {
  await using it = await setUp();
  const refused = await it.mds(['remove', 'sin1'], { terminal: 80, stdin: 'n\n' });
  expect(refused.code).toBe(1);
  expect(plain(refused.stderr)).toBe(
    'sin1  Singapore, SG, not served, 0 nodes\nRemove it with its asset records? [y/N] error: Nothing was removed.\n',
  );
  expect(it.service.requests).toEqual(['GET /control/v1/regions/sin1']);
  expect(await it.mds(['remove', 'sin1'], { terminal: 80, stdin: 'y\n' })).toMatchObject({
    code: 0,
    stdout: 'sin1  removed\n',
  });
  expect(it.regions.map(({ code }) => code)).toEqual(['fra1', 'ams1']);
});

it('remove needs --yes without a terminal, and refuses served and unknown regions', async () => {
  await using it = await setUp();
  expect((await it.mds(['remove', 'sin1'])).code).toBe(2);
  expect(it.service.requests).toEqual([]);
  expect(await it.mds(['remove', 'fra1', '--yes'])).toMatchObject({
    code: 1,
    stderr: 'error: A node serves fra1: stop it first. (region_in_use, request req-1)\n',
  });
  expect(await it.mds(['remove', 'sin1', '-y'])).toEqual({ code: 0, stdout: 'sin1\tremoved\n', stderr: '' });
  expect((await it.mds(['remove', 'sin1', '-y'])).code).toBe(3);
  expect(JSON.parse((await it.mds(['add', 'tyo1', '--json'])).stdout)).toMatchObject({ code: 'tyo1' });
  expect(JSON.parse((await it.mds(['remove', 'tyo1', '-y', '--json'])).stdout)).toEqual({
    code: 'tyo1',
    deleted: true,
  });
});

it('escapes control characters in the names of nodes', async () => {
  await using it = await setUp();
  it.regions[0]?.nodes.push(node('evil\x1b]0;owned\x07\x1b[2J', 1));
  for (const options of [{ terminal: 200 }, {}]) {
    const { stdout } = await it.mds(['list', '--all'], options);
    expect(stdout).toContain('owned');
    expect(plain(stdout).replace(/[\n\t]/g, '')).not.toMatch(/\p{Cc}/u);
  }
});
