import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { resolveRegion } from '../regions/region-setting.ts';
import { createReporter, UnsentDeliveries } from './reporter.ts';
import { startScriptedOrigin } from './scripted-origin.fixture.ts';
import { createStateFile } from './state-file.ts';

it('no delivery is lost if another program at the address of the origin answers 200', async () => {
  const origin = await startScriptedOrigin();
  const folder = await mkdtemp(join(tmpdir(), 'mds-reporter-'));
  onTestFinished(async () => {
    await origin.stop();
    await rm(folder, { recursive: true });
  });
  const reporter = createReporter({
    origin: origin.connection,
    region: resolveRegion('sin1'),
    nodeId: 'node',
    eventsThrough: () => null,
    unsent: createStateFile(join(folder, 'unsent.json'), UnsentDeliveries),
    logger: pino({ level: 'silent' }),
    heartbeatMs: 60_000,
  });
  const delivery = { region: 'sin1', path: '/media/x', bytes: 1, cacheStatus: 'HIT' as const, atMs: 1 };
  origin.answer = (_req, res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>');
  const refused = reporter.record([delivery], 1);
  expect(reporter.unsent).toBe(1);
  await expect(refused).rejects.toThrow('does not accept reports');
  // The request log has the deliveries again and retries.
  expect(reporter.unsent).toBe(0);
  expect(origin.connection.acceptance.refusal).toContain('MDS_ORIGIN_URL');
  origin.answer = (_req, res) =>
    void res.writeHead(200, { 'content-type': 'application/json' }).end('{"heartbeat_ms":5000}');
  await reporter.record([delivery], 1);
  expect(origin.connection.acceptance.refusal).toBeNull();
  await reporter.stop();
});
