import type { Event } from '@mds/client';
import { expect, it } from 'vitest';
import { mdsHere, plain, start } from './run-cli.ts';
import { mediaObject, type ScriptedService, startService, TOKEN } from './scripted-service.ts';

const { id } = mediaObject(1);
const stored = (n: number, at = '2026-01-31T08:15:00Z') => ({ id: String(n), created_at: at });
const failure = { code: 'corrupt_media', message: 'The file is damaged.', retryable: false };

const EVENTS: Event[] = [
  { ...stored(6), type: 'media.created', data: { id, status: 'queued', error: null } },
  { type: 'media.progress', data: { id, progress: 0.42 } },
  { ...stored(7), type: 'rendition.ready', data: { id, name: 'hls', extension: 'm3u8', revision: '0a1b2c3d' } },
  {
    ...stored(7),
    type: 'rendition.failed',
    data: { id, name: 'mp4', extension: 'mp4', revision: '0a1b2c3d', reason: 'The program was killed.' },
  },
  { ...stored(8), type: 'media.failed', data: { id, status: 'failed', error: failure } },
  { ...stored(9), type: 'region.status_changed', data: { code: 'fra1', status: 'partial_outage' } },
  { ...stored(10), type: 'cache.purged', data: { media_id: id, path: null } },
  { ...stored(11), type: 'cache.purged', data: { media_id: null, path: '/media/x/thumb.webp' } },
  { ...stored(12), type: 'cache.purged', data: { media_id: null, path: null } },
];

/** Runs `mds events` until the service ends the stream. */
async function follow(service: ScriptedService, args: string[], options: Parameters<typeof mdsHere>[1] = {}) {
  service.hasEvents = true;
  const running = mdsHere(['events', ...args], { env: { MDS_URL: service.url, MDS_TOKEN: TOKEN }, ...options });
  await expect.poll(() => service.listeners.size).toBe(1);
  for (const event of EVENTS) service.sendEvent(event);
  // 204 answers a reconnect: there are no more events.
  service.on('GET /control/v1/events', (_, response) => void response.writeHead(204).end());
  for (const listener of service.listeners) listener.end();
  return running;
}

it('prints a line for each event except progress', async () => {
  await using service = await startService();
  const { code, stdout } = await follow(service, []);
  expect(code).toBe(0);
  expect(stdout.split('\n')).toEqual([
    `6\t2026-01-31T08:15:00Z\tmedia.created\t${id}\t`,
    `7\t2026-01-31T08:15:00Z\trendition.ready\t${id}\thls.m3u8`,
    `7\t2026-01-31T08:15:00Z\trendition.failed\t${id}\tmp4.mp4: The program was killed.`,
    `8\t2026-01-31T08:15:00Z\tmedia.failed\t${id}\tThe file is damaged. (corrupt_media)`,
    '9\t2026-01-31T08:15:00Z\tregion.status_changed\tfra1\tpartial_outage',
    `10\t2026-01-31T08:15:00Z\tcache.purged\t${id}\t`,
    '11\t2026-01-31T08:15:00Z\tcache.purged\t/media/x/thumb.webp\t',
    '12\t2026-01-31T08:15:00Z\tcache.purged\teverything\t',
    '',
  ]);
});

it('starts after the event of --after, and prints progress if --type asks for it', async () => {
  await using service = await startService();
  const { stdout } = await follow(service, ['--after', '5', '--type', 'media.progress', 'media.failed']);
  expect(stdout.split('\n')).toEqual([
    `\t\tmedia.progress\t${id}\t42%`,
    `8\t2026-01-31T08:15:00Z\tmedia.failed\t${id}\tThe file is damaged. (corrupt_media)`,
    '',
  ]);
  expect(service.requests).toEqual(['GET /control/v1/events?after=5', 'GET /control/v1/events']);
  expect(service.headers()['last-event-id']).toBe('12');
});

it("--json prints the API's events, one a line", async () => {
  await using service = await startService();
  const { stdout } = await follow(service, ['--json']);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.map((line): unknown => JSON.parse(line))).toEqual(
    EVENTS.filter(({ type }) => type !== 'media.progress'),
  );
});

it('aligns events on a terminal, and reports a lost connection', async () => {
  await using service = await startService();
  const { stdout, stderr } = await follow(service, [], { terminal: 80 });
  const lines = plain(stdout).split('\n');
  expect(lines[0]).toBe(`    6  2026-01-31T08:15:00Z  media.created     ${id}`);
  expect(lines[2]).toBe(`    7  2026-01-31T08:15:00Z  rendition.failed  ${id}  mp4.mp4: The program was killed.`);
  expect(lines[3]).toBe(`    8  2026-01-31T08:15:00Z  media.failed      ${id}  The file is damaged. (corrupt_media)`);
  expect(plain(stderr)).toMatch(/^The connection was lost; the next attempt is in \d+ ms\.\n$/);
});

it('shows an unknown event, with unsafe characters escaped', async () => {
  await using service = await startService();
  // The cast is the purpose: this type is in no contract, as if from a newer service.
  const evil = { ...stored(3), type: 'media.\x1b[2Jlevitated', data: { x: '\u202e\x9b' } } as unknown as Event;
  service.hasEvents = true;
  const running = mdsHere(['events'], { terminal: 80, env: { MDS_URL: service.url, MDS_TOKEN: TOKEN } });
  await expect.poll(() => service.listeners.size).toBe(1);
  service.sendEvent(evil);
  service.on('GET /control/v1/events', (_, response) => void response.writeHead(204).end());
  for (const listener of service.listeners) listener.end();
  const { stdout } = await running;
  expect(stdout).toContain('media.\\x1b[2Jlevitated');
  expect(plain(stdout)).not.toMatch(/(?!\n)[\p{Cc}\u202e]/u);
});

it('ends with 130 on Ctrl-C, as a process too', { timeout: 40_000 }, async () => {
  await using service = await startService();
  service.hasEvents = true;
  const running = start(['events'], { env: { MDS_URL: service.url, MDS_TOKEN: TOKEN } });
  await expect.poll(() => service.listeners.size, { timeout: 30_000 }).toBe(1);
  for (const event of EVENTS) service.sendEvent(event);
  await expect.poll(() => running.stdout()).toContain('partial_outage');
  running.kill('SIGINT');
  expect(await running.done).toMatchObject({ code: 130, stderr: 'error: Interrupted.\n' });
});

it('reports an error if the service has no events or the token may not read them', async () => {
  await using service = await startService();
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN };
  expect(await mdsHere(['events'], { env })).toMatchObject({ code: 3, stdout: '' });
  expect(await mdsHere(['events'], { env: { ...env, MDS_TOKEN: 'wrong' } })).toMatchObject({ code: 4, stdout: '' });
});
