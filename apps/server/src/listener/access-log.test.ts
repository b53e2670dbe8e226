import { afterEach, beforeEach, expect, it } from 'vitest';
import { type AppFixture, mediaId, startApp, TOKENS } from '../../test/support/app-fixture.ts';
import { report } from '../control-api/requests.fixture.ts';

let app: AppFixture;
beforeEach(async () => {
  app = await startApp();
});
afterEach(() => app.stop());

const LEVELS: Record<number, string> = { 20: 'debug', 30: 'info', 40: 'warn' };

/** Level and status of the logged answers whose URL begins with `prefix`. */
function logged(prefix: string): [string, number][] {
  const lines = app.log as { level: number; req?: { url: string }; res?: { status: number } }[];
  return lines.flatMap(({ level, req, res }) =>
    req?.url.startsWith(prefix) && res ? [[LEVELS[level] ?? String(level), res.status] as [string, number]] : [],
  );
}

it('routine requests of points of presence are logged at debug and bury no others', async () => {
  await report(app, 'sin1');
  await (await app.control(`/edges/sin1/resource?path=/media/${mediaId()}/thumb.webp`)).text();
  await (await app.control(`/edges/sin1/object?path=/media/${mediaId()}/thumb.webp`)).text();
  await expect
    .poll(() => logged('/control/v1/edges/'))
    .toEqual([
      ['debug', 200],
      ['debug', 404],
      ['debug', 200],
    ]);
});

it('an upload refused before it has arrived is logged as completed, with its sender', async () => {
  const body = Buffer.alloc(8 * 1024 * 1024);
  const headers = { authorization: 'Bearer nobody gave this out' };
  const { status } = await fetch(`${app.url}/control/v1/media`, { method: 'POST', headers, body });
  expect(status).toBe(401);
  await expect
    .poll(() => app.log.find((line) => (line as { res?: { status: number } }).res?.status === 401))
    .toMatchObject({ msg: 'request completed', req: { remoteAddress: expect.stringMatching(/127\.0\.0\.1$/) } });
});

it('a refused point of presence is logged at info, as are the requests of operators', async () => {
  await report(app, 'sin1', {}, 'nobody gave this out');
  await report(app, 'sin1', {}, TOKENS.ingest);
  await report(app, 'sin1', { node: '' });
  await (await app.control('/regions')).text();
  await expect
    .poll(() => logged('/control/v1/'))
    .toEqual([
      ['info', 401],
      ['info', 403],
      ['info', 400],
      ['info', 200],
    ]);
});
