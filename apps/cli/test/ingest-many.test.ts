import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { png } from '../../server/test/support/pictures.ts';
import { spawnService } from '../../server/test/support/service-process.ts';
import { start, temporaryFolder } from './run-cli.ts';

const FILES = 2_000;

/** How often the service received a file, by its own count. */
async function uploadsOf(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const lines = metrics.matchAll(
    /^mds_http_requests_total\{method="POST",route="\/control\/v1\/media",status="20[01]"\} (\d+)/gm,
  );
  return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
}

it('after Ctrl-C in 2,000 files, the same command sends exactly the missing ones', {
  timeout: 600_000,
}, async () => {
  await using folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  for (let n = 0; n < FILES; n++) {
    if (n % 100 === 0) await mkdir(at(`in/${n / 100}`), { recursive: true });
    await writeFile(at(`in/${Math.floor(n / 100)}/${n}.png`), png(n, 4, 4));
  }
  // Renditions do not matter here, and would take all the time.
  const service = await spawnService({ dataDir: at('data'), env: { MDS_ROLES: 'api' } });
  try {
    const env = { MDS_URL: service.url, MDS_TOKEN: service.token, XDG_STATE_HOME: at('state') };
    const ingest = () => start(['ingest', 'in', '--parallel', '8'], { cwd: folder.path, env, stdin: '' });
    const first = ingest();
    await expect.poll(() => first.stdout().split('\n').length, { timeout: 300_000 }).toBeGreaterThan(FILES / 3);
    first.kill('SIGINT');
    const interrupted = await first.done;
    expect(interrupted.code).toBe(130);
    const [, made, missing] = /^2000 files: (\d+) created, (\d+) not done\n/.exec(interrupted.stderr) ?? [];
    expect(Number(made) + Number(missing)).toBe(FILES);
    const sentFirst = await uploadsOf(service.url);

    const second = await ingest().done;
    expect([second.code, second.stdout.split('\n').length - 1]).toEqual([0, FILES]);
    const sentSecond = (await uploadsOf(service.url)) - sentFirst;
    expect(sentSecond).toBe(Number(missing));
    expect(second.stderr).toMatch(new RegExp(`^2000 files: .*${made} remembered\\n$`));

    const third = await ingest().done;
    expect(third.stderr).toBe('2000 files: 2000 remembered\n');
    expect((await uploadsOf(service.url)) - sentFirst).toBe(sentSecond);
  } finally {
    await service.end('SIGKILL');
  }
});

it('after kill -9 with --duplicate allow, no file becomes two media', { timeout: 300_000 }, async () => {
  await using folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  await mkdir(at('in'));
  for (let n = 0; n < 200; n++) await writeFile(at(`in/${n}.png`), png(n, 4, 4));
  const service = await spawnService({ dataDir: at('data'), env: { MDS_ROLES: 'api' } });
  try {
    const env = { MDS_URL: service.url, MDS_TOKEN: service.token, XDG_STATE_HOME: at('state') };
    const ingest = () =>
      start(['ingest', 'in', '--duplicate', 'allow', '--parallel', '8'], { cwd: folder.path, env, stdin: '' });
    for (const lines of [10, 40, 20]) {
      const running = ingest();
      await expect
        .poll(() => running.stdout().match(/\tcreated\t/g)?.length ?? 0, { timeout: 120_000 })
        .toBeGreaterThan(lines);
      running.kill('SIGKILL');
      await running.done;
    }
    expect((await ingest().done).code).toBe(0);
    const { total } = await countMedia(service.url);
    expect(total).toBe(200);
  } finally {
    await service.end('SIGKILL');
  }
});

async function countMedia(url: string): Promise<{ total: number }> {
  const { createClient } = await import('@mds/client');
  let total = 0;
  for await (const _ of createClient({ baseUrl: url }).media.list({ limit: 100 })) total++;
  return { total };
}
