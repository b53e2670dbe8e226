import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { mdsHere, temporaryFolder } from './run-cli.ts';
import { mediaObject, type ScriptedService, sendJson, sendProblem, startService, TOKEN } from './scripted-service.ts';

const LOOK = 'GET /control/v1/migrations/current';

// Only the timer of the checks is faked; everything else runs in real time.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }));
afterEach(() => void vi.useRealTimers());

/** A service whose worker has stopped, and a file that it accepts. */
async function setUp() {
  const service = await startService();
  service.pollsUntilReady = Number.POSITIVE_INFINITY;
  const folder = await temporaryFolder();
  await writeFile(join(folder.path, 'a.jpg'), 'a');
  const looks = () => service.requests.filter((request) => request === LOOK).length;
  return {
    ...{ service, looks },
    run: (args: string[], interrupt?: AbortSignal) => {
      const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN, XDG_STATE_HOME: join(folder.path, 'state') };
      return mdsHere(args, { cwd: folder.path, env, ...(interrupt && { interrupt }) });
    },
    /** Runs one check, and waits for its answer. */
    async look() {
      const before = looks();
      await vi.advanceTimersByTimeAsync(15_000);
      await expect.poll(looks).toBeGreaterThan(before);
      await new Promise((resolve) => setTimeout(resolve, 100));
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** The answers to the checks, one after the other; the last one repeats. */
function answerLooks(service: ScriptedService, states: ('none' | 'forbidden' | 'running' | 'done')[]) {
  service.on(LOOK, (_request, response) => {
    const state = states.length > 1 ? states.shift() : states[0];
    if (state === 'none') return sendProblem(response, 404, 'not_found', 'None was begun.');
    if (state === 'forbidden') return sendProblem(response, 403, 'forbidden', 'It is not for this token.');
    sendJson(response, 200, { object: 'migration', state });
  });
}

const isWaiting = (service: ScriptedService) =>
  expect.poll(() => service.requests.some((request) => /^GET \/control\/v1\/media\/med_/.test(request))).toBe(true);

it.each([
  ['ingest --wait', ['ingest', '--wait', 'a.jpg']],
  ['media retry --wait', ['media', 'retry', '--wait', mediaObject(1).id]],
])('%s ends once the deployment was moved, instead of waiting for ever', async (_, args) => {
  await using it = await setUp();
  it.service.media.push(mediaObject(1, { status: 'failed' }));
  answerLooks(it.service, ['none', 'running', 'done']);
  let ended = false;
  const running = it.run(args).finally(() => {
    ended = true;
  });
  await isWaiting(it.service);
  await it.look();
  await it.look();
  expect(ended).toBe(false);
  await it.look();
  const { code, stderr } = await running;
  expect([code, it.looks()]).toEqual([1, 3]);
  expect(stderr).toMatch(/^error: The deployment was moved .*\(deployment_moved\)$/m);
  expect(stderr).toContain('  Give the address of the new service with --url or MDS_URL.\n');
});

it('keeps waiting without repeated checks if the token may not see moves', async () => {
  await using it = await setUp();
  answerLooks(it.service, ['forbidden']);
  const interrupt = new AbortController();
  const running = it.run(['ingest', '--wait', 'a.jpg'], interrupt.signal);
  await isWaiting(it.service);
  await it.look();
  await vi.advanceTimersByTimeAsync(60_000);
  interrupt.abort();
  expect([(await running).code, it.looks()]).toEqual([130, 1]);
});
