import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EdgeEvent, type Event } from '@mds/contract';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type AppFixture, startApp, TOKENS } from '../../test/support/app-fixture.ts';
import { readEvents } from '../../test/support/video-service.ts';
import { KEPT_EVENTS } from '../db/event-repository.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createEventStream, type EventStream, type EventStreamParts } from './event-stream.ts';

const types = (events: readonly Event[]) => events.map(({ type }) => type);
const atLeast = (count: number) => (events: readonly Event[]) => events.length >= count;
const data = { code: 'fra1', status: 'operational' };

describe('the event stream of the control API', () => {
  let app: AppFixture;
  beforeEach(async () => {
    app = await startApp();
  });
  afterEach(() => app.stop());

  it('requires a token, and a valid event id if one is given', async () => {
    expect((await app.get('/control/v1/events')).status).toBe(401);
    expect((await app.control('/events', { method: 'POST' })).status).toBe(405);
    for (const after of ['-1', 'abc', '1e9', '1&after=2']) {
      expect([after, (await app.control(`/events?after=${after}`)).status]).toEqual([after, 400]);
    }
    expect((await app.control('/events', { headers: { 'last-event-id': 'x' } })).status).toBe(400);
    const head = await app.control('/events', { method: 'HEAD' });
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  });

  it('sends events at once, and only to the project that they belong to', async () => {
    const [mine, theirs] = await Promise.all([
      app.control('/events', { token: TOKENS.ingest }),
      app.control('/events', { token: TOKENS.other }),
    ]);
    expect(mine.headers.get('cache-control')).toBe('no-store');
    const began = performance.now();
    const reading = Promise.all([readEvents(mine, atLeast(1)), readEvents(theirs, atLeast(1))]);
    const id = await app.addMedia();
    const other = await app.addMedia({ projectId: 'other' });
    const [own, foreign] = await reading;
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(own).toMatchObject([{ type: 'media.created', data: { id, status: 'queued', error: null } }]);
    expect(foreign).toMatchObject([{ type: 'media.created', data: { id: other } }]);
  });

  it('resends missed events to a reader that reconnects, once and in order', async () => {
    for (let n = 0; n < 1_203; n++) await app.addMedia(n % 3 === 0 ? { projectId: 'other' } : {});
    const response = await app.control('/events?after=0');
    const reading = readEvents(response, atLeast(803));
    // A new event happens while the reader catches up.
    await app.addMedia();
    const seqs = (await reading).map((event) => Number('id' in event ? event.id : 0));
    expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b));
    expect(seqs).toHaveLength(803);
    const rest = await app.control('/events', { headers: { 'last-event-id': String(seqs[700]) } });
    expect(await readEvents(rest, atLeast(102))).toHaveLength(102);
  });

  it('continues for a reader with an event id that this database never had', async () => {
    const response = await app.control('/events?after=999999999');
    const reading = readEvents(response, atLeast(1));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await app.addMedia();
    expect(types(await reading)).toEqual(['media.created']);
  });
});

describe('the event stream for points of presence', () => {
  let app: AppFixture;
  beforeEach(async () => {
    app = await startApp();
  });
  afterEach(() => app.stop());

  /** Reads the events of the stream until a block that has only an id. */
  const blocks = async (lastEventId: string | null) => {
    const headers: Record<string, string> = lastEventId === null ? {} : { 'last-event-id': lastEventId };
    const reader = (await app.control('/edges/sin1/events', { headers })).body?.getReader();
    let text = '';
    for (let ended = false; reader && !ended && !/^id: \d+\n\n/m.test(text); ) {
      const { done, value } = await reader.read();
      text += Buffer.from(value ?? []).toString();
      ended = done;
    }
    await reader?.cancel();
    return text.match(/^data: .*$/gm)?.map((line) => EdgeEvent.parse(JSON.parse(line.slice(6)))) ?? [];
  };
  const purge = (path: string | null = null) =>
    app.repositories.events.append({ projectId: 'other', type: 'cache.purged', data: { media_id: null, path } });

  it('has the events of every project, so that no deleted media stay in a cache', async () => {
    await app.addMedia();
    await app.addMedia({ projectId: 'other' });
    expect((await blocks('0')).map(({ type }) => type)).toEqual(['media.created', 'media.created']);
    expect(await blocks(null)).toEqual([]);
  });

  it('reports that events were dropped, and if a purge of everything was among them', async () => {
    const purged = await purge();
    for (let n = 0; n < KEPT_EVENTS + 5; n++) await purge('/media/x');
    const latest = String(purged + KEPT_EVENTS + 5);
    const reset = [{ id: latest, type: 'reset', data: { purged_everything: String(purged) } }];
    expect(await blocks('1')).toEqual(reset);
    expect(await blocks('999999')).toEqual(reset);
    expect(await blocks(String(Number(latest) - 2))).toHaveLength(2);
  });
});

describe('the stream of events', () => {
  let folder: string;
  let repositories: Repositories;
  let stream: EventStream;
  let server: Server;
  let url: string;
  const log: string[] = [];
  const start = async (parts: Partial<EventStreamParts> = {}) => {
    const logger = pino({ level: 'warn' }, { write: (line: string) => void log.push(line) });
    stream = createEventStream({ events: repositories.events, jobs: repositories.jobs, logger, ...parts });
    await stream.start();
    server = createServer((_, res) => stream.serve(res, { projectId: 'default', after: null }));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const listening = (count: number) => expect.poll(() => stream.listeners).toBe(count);
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mds-events-'));
    repositories = openSqliteRepositories(join(folder, 'mds.sqlite'));
    log.length = 0;
  });
  afterEach(async () => {
    await stream.stop();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await repositories.close();
    await rm(folder, { recursive: true });
  });
  const append = (to = repositories) => to.events.append({ projectId: null, type: 'region.status_changed', data });

  it('sends events and progress of other processes within a quarter of a second', async () => {
    await start();
    const elsewhere = openSqliteRepositories(join(folder, 'mds.sqlite'));
    const mediaObject = {
      ...{ id: 'med_01k0c4s6q8y2v4w6x8z0a2c4e6', projectId: 'default', createdAtMs: 0, contentType: 'video/mp4' },
      ...{ bytes: 1, width: 1, height: 1, filename: null, sha256: 'a'.repeat(64), kind: 'video' as const },
      ...{ format: 'mp4', durationMs: 1, codecs: [], warnings: [], identified: {} },
    };
    await elsewhere.media.accept(mediaObject, { duplicate: 'existing', idempotencyKey: null });
    const lease = await elsewhere.jobs.claim('worker');
    if (!lease) throw new Error('There is nothing to claim.');
    const response = await fetch(url);
    let receivedAt = 0;
    const reading = readEvents(response, atLeast(2), () => {
      receivedAt = performance.now();
    });
    await listening(1);
    const appendedAt = performance.now();
    await append(elsewhere);
    await expect.poll(() => receivedAt, { interval: 5 }).toBeGreaterThan(0);
    expect(receivedAt - appendedAt).toBeLessThan(400);
    await elsewhere.jobs.progress(lease, 0.5);
    expect((await reading)[1]).toEqual({ type: 'media.progress', data: { id: mediaObject.id, progress: 0.5 } });
    await elsewhere.close();
  });

  it('misses no event that happens just as a listener has caught up', async () => {
    let open: () => void = () => undefined;
    let slow: Promise<void> | null = null;
    await start({
      events: {
        ...repositories.events,
        // The database answers late, so that its answer is outdated.
        after: async (seq, options) => {
          const records = await repositories.events.after(seq, options);
          if (options.projectId !== null) await slow;
          return records;
        },
      },
    });
    const heard = readEvents(await fetch(url), atLeast(1));
    await listening(1);
    slow = new Promise((resolve) => {
      open = resolve;
    });
    const late = readEvents(await fetch(url), atLeast(2));
    await listening(2);
    await append();
    expect(types(await heard)).toEqual(['region.status_changed']);
    open();
    await append();
    const ids = (await late).map((event) => ('id' in event ? event.id : null));
    expect(ids).toEqual(['1', '2']);
  });

  it('keeps an idle connection alive with comments', async () => {
    await start({ timing: { heartbeatMs: 20 } });
    const reader = (await fetch(url)).body?.getReader();
    let text = '';
    while (reader && !text.includes(': still here')) text += Buffer.from((await reader.read()).value ?? []).toString();
    expect(text).toMatch(/^retry: \d+\n/);
    await reader?.cancel();
    await listening(0);
  });

  /** Reads the stream until the text matches. */
  const readUntil = async (enough: RegExp) => {
    const reader = (await fetch(url)).body?.getReader();
    let text = '';
    for (let ended = false; reader && !ended && !enough.test(text); ) {
      const { done, value } = await reader.read();
      text += Buffer.from(value ?? []).toString();
      ended = done;
    }
    await reader?.cancel();
    return text;
  };

  it('sends an idle reader an id, from which it can continue later', async () => {
    // The stream sends only its first block.
    await start({ timing: { heartbeatMs: 60_000 } });
    await append();
    expect(await readUntil(/^id: 1\n\n/m)).not.toContain('data:');
  }, 10_000);

  it('advances the id of a reader past events of other projects', async () => {
    await start({ timing: { heartbeatMs: 20 } });
    await repositories.events.append({ projectId: 'other', type: 'region.status_changed', data });
    expect(await readUntil(/: still here\nid: 1\n\n/)).not.toContain('data:');
  }, 10_000);

  it('cuts off a listener that does not read, and serves the others', async () => {
    await start();
    const { port } = server.address() as AddressInfo;
    const stalled: Socket = connect(port, '127.0.0.1', () => stalled.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'));
    stalled.pause();
    stalled.on('error', () => undefined);
    const quick = readEvents(await fetch(url), (events) => 'data' in (events.at(-1) ?? {}) && stream.listeners === 1);
    await listening(2);
    // This is more than the buffers of the system hold.
    const status = 'x'.repeat(100_000);
    for (let n = 0; n < 400 && stream.listeners === 2; n++) {
      await repositories.events.append({
        projectId: null,
        type: 'region.status_changed',
        data: { code: 'fra1', status },
      });
      // The other listener gets time to read.
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(stream.listeners).toBe(1);
    await append();
    const heard = await quick;
    expect(heard.length).toBeGreaterThan(10);
    expect(log.join()).toContain('did not keep up');
    stalled.destroy();
  }, 30_000);

  it('ends for every listener when the service stops, and accepts none after', async () => {
    await start();
    const responses = await Promise.all(Array.from({ length: 50 }, () => fetch(url)));
    await listening(50);
    await stream.stop();
    const texts = await Promise.all(responses.map((response) => response.text()));
    expect(texts.every((text) => text.startsWith('retry:'))).toBe(true);
    expect(await (await fetch(url)).text()).toMatch(/^retry:/);
    expect(stream.listeners).toBe(0);
  });
});
