import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { png } from './support/pictures.ts';
import { BUILT, ServiceDidNotStart, type ServiceProcess, spawnService } from './support/service-process.ts';

const run = promisify(execFile);
const BUILT_CLI = fileURLToPath(new URL('../../cli/dist/main.js', import.meta.url));
const built = existsSync(BUILT) && existsSync(BUILT_CLI);

describe.skipIf(!built)('the built service and command line (npm run build)', () => {
  let folder: string;
  let service: ServiceProcess;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mds-built-'));
    service = await spawnService({ dataDir: join(folder, 'data'), built: true, firstStart: true });
  });
  afterAll(async () => {
    await service.end('SIGKILL');
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  });

  const mds = (...argv: string[]) =>
    run(process.execPath, [BUILT_CLI, ...argv], {
      env: { PATH: process.env['PATH'] ?? '', MDS_URL: service.url, MDS_TOKEN: service.token },
    });

  it('the command line alone ingests, renders and downloads a picture', async () => {
    const picture = join(folder, 'picture.png');
    await writeFile(picture, png(1, 800, 600));
    const { stdout } = await mds('ingest', '--wait', '--json', picture);
    expect(JSON.stringify(JSON.parse(stdout))).toContain('"status":"ready"');
    const list = JSON.parse((await mds('media', 'list', '--json')).stdout) as { data: { id: string; width: number }[] };
    expect(list.data).toMatchObject([{ width: 800 }]);
    const delivered = await fetch(`${service.url}/media/${list.data[0]?.id}/thumb.webp`);
    expect(delivered.headers.get('content-type')).toBe('image/webp');
    expect((await delivered.arrayBuffer()).byteLength).toBeGreaterThan(100);
  });

  it('the first start finds which formats the engine can decode', async () => {
    const { data } = (await (await fetch(`${service.url}/api/v1/formats`)).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining(['png', 'jpeg', 'webp', 'heic']));
  });

  it('fault 23: a second service on the same data folder refuses to start and names the first', async () => {
    const second = spawnService({ dataDir: join(folder, 'data'), built: true });
    const refusal = await second.then(
      async (started) => expect.unreachable(`it listens on ${started.url}`),
      (error: unknown) => error,
    );
    expect(refusal).toBeInstanceOf(ServiceDidNotStart);
    expect((refusal as ServiceDidNotStart).code).toBe(2);
    expect((refusal as ServiceDidNotStart).stderr).toContain(`process id ${service.child.pid}`);
    expect((refusal as ServiceDidNotStart).stderr).toContain(service.url);
  });

  it('reports all wrong settings at once and exits with 2', async () => {
    const wrong = spawnService({
      dataDir: join(folder, 'other'),
      built: true,
      env: { MDS_REGION: 'nowhere', MDS_ROLES: 'x' },
    });
    await expect(wrong).rejects.toMatchObject({ code: 2, stderr: expect.stringMatching(/MDS_REGION[\s\S]*MDS_ROLES/) });
  });

  it('fault 15: SIGTERM stops the service, its worker and its engine with exit code 0', async () => {
    const one = await spawnService({ dataDir: join(folder, 'stopping'), built: true });
    const children = async () =>
      (await run('ps', ['-o', 'pid=', '--ppid', String(one.child.pid)]).catch(() => ({ stdout: '' }))).stdout.trim();
    expect(await children()).not.toBe('');
    const pids = (await children()).split(/\s+/).map(Number);
    expect(await one.end('SIGTERM')).toEqual({ code: 0, signal: null });
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });
});
