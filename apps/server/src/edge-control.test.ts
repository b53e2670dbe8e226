import type { AddressInfo } from 'node:net';
import { Problem } from '@mds/contract';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { createApp } from './app.ts';
import { mountControlRefusal } from './edge/control-refusal.ts';
import { createHttpServer } from './listener/http-server.ts';
import { createMetrics } from './listener/metrics.ts';
import { createRequestListener } from './listener/request-listener.ts';

const originUrl = 'http://origin.internal.example:8080';
const token = 'the-token-of-this-node';

async function startNode(): Promise<string> {
  const logger = pino({ level: 'silent' });
  const metrics = createMetrics({ deliveries: null, queue: null, workers: null, ingest: null });
  const app = createApp({
    ...{ logger, metrics },
    publicUrl: () => 'https://edge.example',
    notReady: async () => null,
    read: null,
    control: null,
    instead: (it) => mountControlRefusal(it, { originUrl, token }),
  });
  const server = createHttpServer(createRequestListener({ app, delivery: null, versions: null, metrics, logger }));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it('a point of presence shows the address of its origin only with its token', async () => {
  const url = await startNode();
  const ask = async (headers: Record<string, string>, path = '/control/v1/media') => {
    const answer = await fetch(url + path, { headers });
    const text = await answer.text();
    return { code: [answer.status, Problem.parse(JSON.parse(text)).code], isShown: text.includes('origin.internal') };
  };
  for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: `Basic ${token}` }]) {
    expect(await ask(headers)).toEqual({ code: [421, 'misdirected_request'], isShown: false });
  }
  expect(await ask({}, '/control')).toEqual({ code: [421, 'misdirected_request'], isShown: false });
  expect(await ask({ authorization: `Bearer ${token}` })).toEqual({
    code: [421, 'misdirected_request'],
    isShown: true,
  });
});
