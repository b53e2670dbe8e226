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
/** What is answered at once. */
const ELSEWHERE = '/api/v1/nowhere';

/** An answer that is being made: what it tells is known, and it goes out when it is let out. */
interface Making {
  letOut(status?: number, body?: string): void;
}

let app: AppFixture;
let told = 0;
let isSlow = false;
const makings: Making[] = [];

beforeAll(async () => {
  app = await startApp({
    // Another app than the service's own, over its request listener: what it tells can be stopped in the middle.
    aroundApp: () => (req, res) => {
      Object.assign(req, { route: { path: '/api/v1/media' } });
      const page = String(told);
      const letOut = (status = 200, body = page) =>
        sendAnswer(req, res, makeAnswer({ body, status, cacheControl: 'public, max-age=60' }));
      if (!isSlow || req.url === ELSEWHERE) letOut();
      else makings.push({ letOut });
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
  told += 1;
  await app.repositories.projects.put({ id: 'unrelated', name: `Told ${told}`, hosts: [] });
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

/** Asks so often at once, and waits until the service has been asked. */
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
    makings[0]?.letOut();
    const answers = await Promise.all([first, ...others]);
    expect(answers).toEqual(Array(21).fill({ status: 200, body: String(told) }));
    expect(makings).toHaveLength(1);
  });

  it('is made once more for all who came after something was written that it does not tell', async () => {
    const first = ask();
    await expect.poll(() => makings).toHaveLength(1);
    const before = String(told);
    await write();
    const others = await askMany(20);
    makings[0]?.letOut();
    expect((await first).body).toBe(before);
    await expect.poll(() => makings).toHaveLength(2);
    const after = String(told);
    // What is written from now on, none of them has to be told of.
    await write();
    makings[1]?.letOut();
    expect(await Promise.all(others)).toEqual(Array(20).fill({ status: 200, body: after }));
    expect(makings).toHaveLength(2);
  });

  it('is made by the next one where the first has left', async () => {
    const first = send();
    const hungUp = expect(first.answer).rejects.toThrow('socket hang up');
    await expect.poll(() => makings).toHaveLength(1);
    const others = await askMany(3);
    first.request.destroy();
    await hungUp;
    await expect.poll(() => makings).toHaveLength(2);
    makings[1]?.letOut();
    expect(await Promise.all(others)).toEqual(Array(3).fill({ status: 200, body: String(told) }));
    expect(makings).toHaveLength(2);
  });

  it('each makes for itself where it turns out to be none to keep, and nobody waits more than twice for others', async () => {
    const answers = [ask()];
    await expect.poll(() => makings).toHaveLength(1);
    answers.push(...(await askMany(5)));
    makings[0]?.letOut(404);
    await expect.poll(() => makings).toHaveLength(2);
    makings[1]?.letOut(404);
    await expect.poll(() => makings).toHaveLength(6);
    for (const making of makings.slice(2)) making.letOut(404);
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(6).fill(404));
  });

  it('nobody waits for its first reader to take it', async () => {
    const reader = connect(app.port, '127.0.0.1').pause();
    reader.write(`GET ${PAGE} HTTP/1.1\r\nHost: 127.0.0.1:${app.port}\r\n\r\n`);
    await expect.poll(() => makings).toHaveLength(1);
    const [other] = await askMany(1);
    // More than all buffers between here and there hold, and nothing to keep.
    makings[0]?.letOut(404, 'x'.repeat(64 * 1024 * 1024));
    await expect.poll(() => makings).toHaveLength(2);
    makings[1]?.letOut();
    expect((await other)?.status).toBe(200);
    reader.destroy();
  });

  it('nobody waits for one that was never kept, and may be none to keep', async () => {
    const path = `/api/v1/media?never=${told}`;
    const answers = [ask(path), ask(path)];
    await expect.poll(() => makings).toHaveLength(2);
    for (const making of makings) making.letOut();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
  });
});

describe('whether what is kept holds', () => {
  it('is asked anew by a request that comes long after it was asked last, also while there is no answer yet', async () => {
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
