import type { Job, JobWorker } from '@mds/client';
import { expect, it } from 'vitest';
import { mdsAt, plain } from './run-cli.ts';
import { mediaObject, sendJson, startService } from './scripted-service.ts';

const NOW = Date.now();
// Half a minute more, so that no age reaches the next minute while the test runs.
const ago = (minutes: number) => new Date(NOW - (minutes + 0.5) * 60_000).toISOString();
const busy: JobWorker = {
  ...{ object: 'worker', id: 'vm-1:32485:4c51bd3c', host: 'vm-1', pid: 32485, region: 'fra1', concurrency: 4 },
  ...{ since: ago(3 * 60), running: 3, jobs: [] },
};
const film: Job = {
  ...{ object: 'job', id: 'job-7', media_id: mediaObject(1).id, state: 'running', priority: 100, attempts: 2 },
  ...{ due_at: ago(60), worker: busy.id, started_at: ago(42), progress: 0.367, last_reason: null },
};
const picture: Job = { ...film, id: 'job-8', media_id: mediaObject(2).id, started_at: ago(3), progress: null };
busy.jobs = [film, picture];
const idle: JobWorker = {
  ...{ ...busy, id: 'vm-2:77:0387a402', host: 'vm-2', pid: 77, concurrency: 1, since: ago(50) },
  ...{ running: 0, jobs: [] },
};
const older: JobWorker = { ...idle, id: 'vm-3:5:9', host: null, pid: 5, region: null, since: null };

async function setUp(data: JobWorker[] = [busy, idle, older]) {
  const service = await startService();
  service.on('GET /control/v1/workers', (_, response) => sendJson(response, 200, { object: 'list', data }));
  return {
    service,
    mds: (args: string[], terminal?: number) => mdsAt(service, args, terminal),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

it('shows on a terminal all workers, their jobs with progress, and free capacity', async () => {
  await using it = await setUp();
  const { code, stdout } = await it.mds(['workers'], 160);
  expect(code).toBe(0);
  expect(plain(stdout).split('\n')).toEqual([
    'ID                   HOST    PID  REGION  SINCE  RUNNING  MEDIA                           STARTED  DONE',
    `vm-1:32485:4c51bd3c  vm-1  32485  fra1       3h   3 of 4  ${film.media_id}      42m   36%`,
    `                                                          ${picture.media_id}       3m     -`,
    'vm-2:77:0387a402     vm-2     77  fra1      50m   0 of 1  -                                     -     -',
    'vm-3:5:9             -         5  -           -   0 of 1  -                                     -     -',
    '',
  ]);
});

it('fits 80 columns, and keeps host, process, media object and progress', async () => {
  await using it = await setUp([{ ...busy, host: 'renderer-7.media.example.internal' }]);
  const lines = plain((await it.mds(['workers'], 80)).stdout)
    .trimEnd()
    .split('\n');
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(lines[0]).toMatch(/^HOST +PID .*RUNNING {2}MEDIA/);
  expect(lines[1]).toMatch(/^renderer\S*… {2}32485 .*3 of 4 {2}med_\w+ .*36%$/);
});

it('prints complete lines in a pipe: one for each job, or for a worker without jobs', async () => {
  await using it = await setUp();
  const { stdout } = await it.mds(['workers', 'list']);
  const ofBusy = [busy.id, 'vm-1', '32485', 'fra1', '4', busy.since, '3'];
  expect(stdout.split('\n')).toEqual([
    [...ofBusy, film.media_id, film.started_at, '0.367', 'job-7'].join('\t'),
    [...ofBusy, picture.media_id, picture.started_at, '', 'job-8'].join('\t'),
    [idle.id, 'vm-2', '77', 'fra1', '1', idle.since, '0', '', '', '', ''].join('\t'),
    [older.id, '', '5', '', '1', '', '0', '', '', '', ''].join('\t'),
    '',
  ]);
});

it("--json prints the API's own document", async () => {
  await using it = await setUp();
  const { stdout } = await it.mds(['workers', '--json']);
  expect(JSON.parse(stdout)).toEqual({ object: 'list', data: [busy, idle, older] });
});

it('reports that there are no workers, and how to start one', async () => {
  await using it = await setUp([]);
  const { code, stdout, stderr } = await it.mds(['workers'], 80);
  expect([code, stdout]).toEqual([0, '']);
  expect(plain(stderr)).toBe('No workers: nothing is processed until one is started (MDS_ROLES: worker).\n');
});
