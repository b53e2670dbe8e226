import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Status } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { png } from './support/pictures.ts';
import { type Deployment, get, logOf, startDeployment, TOKEN } from './support/points-of-presence.ts';
import type { ServiceProcess } from './support/service-process.ts';

let all: Deployment;
let stranger: Server;
let strangerUrl: string;
let ingested: string | undefined;
beforeAll(async () => {
  all = await startDeployment();
  await all.startEdge('good', 'sin1');
  // A file server: no POST, and 404 in HTML.
  stranger = createServer((req, res) => {
    if (req.method === 'GET') res.writeHead(404, { 'content-type': 'text/html' }).end('<h1>File not found</h1>');
    else res.writeHead(501, { 'content-type': 'text/html' }).end('<h1>Unsupported method</h1>');
  });
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  strangerUrl = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`;
}, 60_000);
afterAll(async () => {
  await all.stop();
  stranger.closeAllConnections();
  await new Promise((resolve) => stranger.close(resolve));
});

/** A media object of the origin. */
const mediaObject = async () => {
  ingested ??= await all.ingest(png(1));
  return ingested;
};
const componentOf = async (edge: ServiceProcess, name: string) => {
  const { components } = Status.parse(await (await fetch(`${edge.url}/api/v1/status`)).json());
  return components.find((component) => component.name === name)?.status;
};
const readiness = async (edge: ServiceProcess) => {
  const { status, body } = await get(edge, '/readyz');
  return `${status} ${body}`;
};

describe('a point of presence with right settings', () => {
  it('is operational from its first response', async () => {
    const edge = await all.startEdge('early', 'ams1', { MDS_LOG_LEVEL: 'info' });
    expect(await componentOf(edge, 'Origin')).toBe('operational');
    expect(logOf(edge).filter(({ component }) => component === 'Origin')).toEqual([]);
    expect(await readiness(edge)).toMatch(/^200 /);
    await all.end(edge, 'SIGTERM');
  });
});

describe('a point of presence with a wrong setting', () => {
  it.each<[string, () => Record<string, string>, RegExp]>([
    ['token', () => ({ MDS_CONTROL_TOKEN: 'a-token-that-nobody-gave-out' }), /MDS_CONTROL_TOKEN/],
    ['address: an extra path', () => ({ MDS_ORIGIN_URL: `${all.origin.url}/api/v1` }), /MDS_ORIGIN_URL/],
    ['address: another point of presence', () => ({ MDS_ORIGIN_URL: all.node('good').url }), /MDS_ORIGIN_URL/],
    ['address: another program', () => ({ MDS_ORIGIN_URL: strangerUrl }), /MDS_ORIGIN_URL/],
  ])(
    'reports it instead of answering 404: %s',
    async (what, settings, setting) => {
      const id = await mediaObject();
      const name = `wrong-${what.replaceAll(/\W+/g, '-')}`;
      const edge = await all.startEdge(name, 'ams1', { ...settings(), MDS_LOG_LEVEL: 'info' });
      await expect.poll(() => readiness(edge), { timeout: 5_000 }).toMatch(/^503 /);
      expect(await readiness(edge)).toMatch(setting);
      // The first probe counts at once.
      expect(await componentOf(edge, 'Origin')).toBe('major_outage');

      const wanted = [`/media/${id}/thumb.webp`, `/media/${id}/manifest.json`];
      if (what !== 'token' && what !== 'address: another point of presence') wanted.push('/api/v1/media');
      for (const path of wanted) {
        const { status, body, headers } = await get(edge, path);
        expect([path, status, headers.get('cache-control'), headers.get('retry-after')]).toEqual([
          ...[path, 503, 'no-store', '5'],
        ]);
        expect(JSON.parse(body.toString())).toMatchObject({ code: 'unavailable' });
        expect(body.toString()).not.toMatch(/control\/v1|does not answer|127\.0\.0\.1/);
      }
      // It reports every few seconds and retries its events, but logs the error once.
      await new Promise((resolve) => setTimeout(resolve, 6_000));
      const errors = logOf(edge).filter(({ level }) => Number(level) >= 50);
      expect(errors).toMatchObject([{ msg: expect.stringMatching(setting) }]);
      expect(edge.stderr()).not.toMatch(/"stack"|a-token-that-nobody|a-token-for-points/);
      expect(await all.end(edge, 'SIGTERM')).toEqual({ code: 0, signal: null });
    },
    30_000,
  );

  it('is ready once its origin accepts it, and stays ready if it is refused later', async () => {
    const id = await mediaObject();
    const { port } = new URL(all.origin.url);
    await all.end(all.origin, 'SIGTERM');
    const edge = await all.startEdge('waits', 'ams1');
    // Its settings are not known to be wrong yet.
    expect(await readiness(edge)).toMatch(/^200 /);
    await all.startOrigin(port, { MDS_CONTROL_TOKEN: 'another-token-of-the-origin' });
    await expect.poll(() => readiness(edge), { timeout: 10_000 }).toMatch(/^503 .*MDS_CONTROL_TOKEN/);
    await all.end(all.origin, 'SIGTERM');
    await all.startOrigin(port, { MDS_CONTROL_TOKEN: TOKEN });
    await expect.poll(() => readiness(edge), { timeout: 10_000 }).toMatch(/^200 /);
    expect((await get(edge, `/media/${id}/thumb.webp`)).status).toBe(200);
    await all.end(all.origin, 'SIGTERM');
    await all.startOrigin(port, { MDS_CONTROL_TOKEN: 'another-token-of-the-origin' });
    const refusals = () => logOf(edge).filter(({ msg }) => /MDS_CONTROL_TOKEN/.test(String(msg))).length;
    await expect.poll(refusals, { timeout: 10_000 }).toBe(2);
    await expect.poll(() => componentOf(edge, 'Origin'), { timeout: 25_000 }).toBe('major_outage');
    expect(await readiness(edge)).toMatch(/^200 /);
    expect((await get(edge, `/media/${id}/thumb.webp`)).cache).toBe('HIT');
    // Restores the state for the tests that follow.
    await all.end(all.origin, 'SIGTERM');
    await all.startOrigin(port);
  }, 60_000);
});
