import { once } from 'node:events';
import { type ClientRequest, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type AppFixture, startApp } from '../../test/support/app-fixture.ts';
import { makeAnswer, sendAnswer } from '../http/answer.ts';
import { createHotAnswers } from './hot-answers.ts';
import { createRequestFigures } from './request-figures.ts';

const PAGE = '/api/v1/media?of=many';
/** This path is always answered at once. */
const ELSEWHERE = '/api/v1/nowhere';

/** An answer in the making: its content is fixed, and `finish` sends it. */
interface Making {
  finish(status?: number, body?: string): void;
}

let app: AppFixture;
let writes = 0;
let isSlow = false;
const makings: Making[] = [];

beforeAll(async () => {
  app = await startApp({
    // Replaces the app behind the request listener by one whose answers can be held back.
    aroundApp: () => (req, res) => {
      Object.assign(req, { route: { path: '/api/v1/media' } });
      const page = String(writes);
      const finish = (status = 200, body = page) =>
        sendAnswer(req, res, makeAnswer({ body, status, cacheControl: 'public, max-age=60' }));
      if (!isSlow || req.url === ELSEWHERE) finish();
      else makings.push({ finish });
    },
  });
});
afterAll(() => app.stop());
beforeEach(async () => {
  isSlow = false;
  await write();
  await ask();
  await write();
  makings.length = 0;
  isSlow = true;
});

async function write(): Promise<void> {
  writes += 1;
  await app.repositories.projects.put({ id: 'unrelated', name: `Told ${writes}`, hosts: [] });
}

interface Sent {
  request: ClientRequest;
  answer: Promise<{ status: number; body: string }>;
}

function send(path = PAGE): Sent {
  const request = get(app.url + path, { agent: false });
  const answer = once(request, 'response').then(async ([response]: IncomingMessage[]) => ({
    status: response?.statusCode ?? 0,
    body: response ? await text(response) : '',
  }));
  return { request, answer };
}

const ask = (path?: string) => send(path).answer;

/** Sends `count` requests at once, and waits until the service has received them. */
async function askMany(count: number): Promise<Sent['answer'][]> {
  const sent = Array.from({ length: count }, () => send());
  await Promise.all(sent.map(({ request }) => once(request, 'finish')));
  for (let turn = 0; turn < 3; turn += 1) await ask(ELSEWHERE);
  return sent.map(({ answer }) => answer);
}

describe('an answer that many wait for', () => {
  it('is made once', async () => {
    const first = ask();
    await expect.poll(() => makings).toHaveLength(1);
    const others = await askMany(20);
    makings[0]?.finish();
    const answers = await Promise.all([first, ...others]);
    expect(answers).toEqual(Array(21).fill({ status: 200, body: String(writes) }));
    expect(makings).toHaveLength(1);
  });

  it('is made once more for the requests after a write that it does not include', async () => {
    const first = ask();
    await expect.poll(() => makings).toHaveLength(1);
    const before = String(writes);
    await write();
    const others = await askMany(20);
    makings[0]?.finish();
    expect((await first).body).toBe(before);
    await expect.poll(() => makings).toHaveLength(2);
    const after = String(writes);
    // Their answers need not include later writes.
    await write();
    makings[1]?.finish();
    expect(await Promise.all(others)).toEqual(Array(20).fill({ status: 200, body: after }));
    expect(makings).toHaveLength(2);
  });

  it('is made by the next request if the first client leaves', async () => {
    const first = send();
    const hungUp = expect(first.answer).rejects.toThrow('socket hang up');
    await expect.poll(() => makings).toHaveLength(1);
    const others = await askMany(3);
    first.request.destroy();
    await hungUp;
    await expect.poll(() => makings).toHaveLength(2);
    makings[1]?.finish();
    expect(await Promise.all(others)).toEqual(Array(3).fill({ status: 200, body: String(writes) }));
    expect(makings).toHaveLength(2);
  });

  it('is made by each request if it is not cacheable, after at most two waits', async () => {
    const answers = [ask()];
    await expect.poll(() => makings).toHaveLength(1);
    answers.push(...(await askMany(5)));
    makings[0]?.finish(404);
    await expect.poll(() => makings).toHaveLength(2);
    makings[1]?.finish(404);
    await expect.poll(() => makings).toHaveLength(6);
    for (const making of makings.slice(2)) making.finish(404);
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(6).fill(404));
  });

  it('is not delayed until its first client has read it', async () => {
    const reader = connect(app.port, '127.0.0.1').pause();
    reader.write(`GET ${PAGE} HTTP/1.1\r\nHost: 127.0.0.1:${app.port}\r\n\r\n`);
    await expect.poll(() => makings).toHaveLength(1);
    const [other] = await askMany(1);
    // Larger than all buffers on the way, and not cacheable.
    makings[0]?.finish(404, 'x'.repeat(64 * 1024 * 1024));
    await expect.poll(() => makings).toHaveLength(2);
    makings[1]?.finish();
    expect((await other)?.status).toBe(200);
    reader.destroy();
  });

  it('is not waited for if it was never cached, as it may not be cacheable', async () => {
    const path = `/api/v1/media?never=${writes}`;
    const answers = [ask(path), ask(path)];
    await expect.poll(() => makings).toHaveLength(2);
    for (const making of makings) making.finish();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
  });
});

describe('the check whether cached answers are valid', () => {
  it('is repeated for a later request, even while an earlier check is in progress', async () => {
    const answers: (() => void)[] = [];
    const hot = createHotAnswers({
      versions: {
        stamp: () => 1,
        read: () => new Promise((resolve) => answers.push(() => resolve({ assets: 1, others: 1 }))),
      },
      figuresOf: createRequestFigures().of,
    });
    const req = { method: 'GET', url: PAGE, headers: { host: 'a' }, httpVersion: '1.1', socket: {} };
    const first = hot.refresh(req, performance.now());
    await expect.poll(() => answers).toHaveLength(1);
    const cameMs = performance.now() + 20;
    await expect.poll(() => performance.now()).toBeGreaterThan(cameMs);
    const second = hot.refresh(req, cameMs);
    const third = hot.refresh(req, cameMs);
    answers[0]?.();
    await first;
    await expect.poll(() => answers).toHaveLength(2);
    expect(hot.refresh(req, cameMs)).not.toBe(false);
    answers[1]?.();
    await Promise.all([second, third]);
    expect(hot.refresh(req, cameMs)).toBe(false);
    expect(answers).toHaveLength(2);
  });
});
