import type { Job } from '@mds/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { mdsAt, plain } from './run-cli.ts';
import { mediaObject, sendJson, startService } from './scripted-service.ts';

const NOW = Date.now();
// Ages must not change, however slow the machine is.
beforeEach(() => vi.useFakeTimers({ toFake: ['Date'], now: NOW }));
afterEach(() => vi.useRealTimers());
const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();
const waiting: Job = {
  ...{ object: 'job', id: 'job-8', media_id: mediaObject(2).id, state: 'queued', priority: 100, attempts: 0 },
  ...{ due_at: ago(125), worker: null, started_at: null, progress: null, last_reason: null },
};
const running: Job = {
  ...{ ...waiting, id: 'job-7', media_id: mediaObject(1).id, state: 'running', attempts: 2, due_at: ago(60) },
  ...{ worker: 'vm:32485:4c51bd3c', started_at: ago(42), progress: 0.367, last_reason: 'Its worker disappeared.' },
};
const again: Job = {
  ...{ ...waiting, id: 'job-9', media_id: mediaObject(3).id, attempts: 1, due_at: ago(-8) },
  last_reason: 'The renderer crashed. Look into the log of the service.',
};

async function setUp(data: Job[] = [running, waiting, again], next: string | null = null) {
  const service = await startService();
  service.on('GET /control/v1/jobs', (_, response) =>
    sendJson(response, 200, { object: 'list', data, next_cursor: next }),
  );
  return {
    service,
    mds: (args: string[], terminal?: number) => mdsAt(service, args, terminal),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

it('shows workers, progress, waiting jobs and earlier failures on a terminal', async () => {
  await using it = await setUp();
  const { code, stdout } = await it.mds(['jobs'], 160);
  expect(code).toBe(0);
  expect(plain(stdout).split('\n')).toEqual([
    'MEDIA                           STATE    PRIORITY  ATTEMPTS  DONE  SINCE  WORKER             LAST REASON',
    `${running.media_id}  running       100         2   36%    42s  vm:32485:4c51bd3c  Its worker disappeared.`,
    `${waiting.media_id}  queued        100         0     -     2m  -                  -`,
    `${again.media_id}  queued        100         1     -  in 8s  -                  The renderer crashed. Look into the log of the service.`,
    '',
  ]);
});

it('fits a narrow terminal, and keeps media object, state and progress', async () => {
  await using it = await setUp();
  const lines = plain((await it.mds(['jobs'], 60)).stdout)
    .trimEnd()
    .split('\n');
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(60);
  expect(lines[1]).toMatch(/^med_\w+ {2}running .*36%/);
});

it('prints a line for each job in a pipe, with plain timestamps and numbers', async () => {
  await using it = await setUp();
  const { stdout } = await it.mds(['jobs', 'list', '--state', 'queued', '--limit', '7']);
  expect(it.service.requests.at(-1)).toMatch(/jobs\?(?=.*limit=7)(?=.*state=queued)/);
  const fields = [running.media_id, 'running', '100', '2', '0.367', running.started_at, running.due_at];
  const lines = stdout.split('\n');
  expect(lines[0]).toBe([...fields, 'vm:32485:4c51bd3c', 'Its worker disappeared.', 'job-7'].join('\t'));
  expect(lines[1]).toBe([waiting.media_id, 'queued', '100', '0', '', '', waiting.due_at, '', '', 'job-8'].join('\t'));
});

it("--json prints the API's own document", async () => {
  await using it = await setUp([running], 'more');
  const { stdout } = await it.mds(['jobs', '--limit', '1', '--json']);
  expect(JSON.parse(stdout)).toEqual({ object: 'list', data: [running], next_cursor: 'more' });
});

it('reports that there are more jobs, or none', async () => {
  await using it = await setUp([running], 'more');
  expect(plain((await it.mds(['jobs', '--limit', '1'], 100)).stderr)).toContain('The oldest 1; for more: --limit');
  await using idle = await setUp([]);
  const { code, stdout, stderr } = await idle.mds(['jobs'], 100);
  expect([code, stdout]).toEqual([0, '']);
  expect(stderr).toBe('No jobs are running or waiting.\n');
  expect((await idle.mds(['jobs', '--state', 'running'], 100)).stderr).toContain('No jobs are running.');
});

it('an unknown state is wrong usage', async () => {
  await using it = await setUp();
  expect(await it.mds(['jobs', '--state', 'failed'])).toMatchObject({ code: 2, stdout: '' });
});
