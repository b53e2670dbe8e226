import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient, type MediaDetail } from '@mds/client';
import { expect, it } from 'vitest';
import { png } from '../../server/test/support/pictures.ts';
import { seededRandom } from '../../server/test/support/seeded-random.ts';
import { spawnService } from '../../server/test/support/service-process.ts';
import { type Running, start, temporaryFolder } from './run-cli.ts';

const SOON = { timeout: 120_000, interval: 100 };
const FILES = 60;
const KILLS = 5;
/** The renditions do not matter here. */
const SERVICE = { MDS_ROLES: 'api' };

/** A service with a folder that a scanner fills, while its watch is killed again and again. */
async function watchThroughKills(args: (at: (name: string) => string) => string[]) {
  await using folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  await mkdir(at('in/sub'), { recursive: true });
  const service = await spawnService({ dataDir: at('data'), env: SERVICE });
  const env = { MDS_URL: service.url, MDS_TOKEN: service.token, XDG_STATE_HOME: at('state') };
  const random = seededRandom(17);
  const hashes = new Map<string, string>();
  const started: Running[] = [];
  const begin = () => {
    const running = start(['watch', at('in'), '--settle', '0.1', '--json', ...args(at)], { cwd: folder.path, env });
    started.push(running);
    return running;
  };
  try {
    for (let kill = 0; kill < KILLS; kill++) {
      const watch = begin();
      for (let n = 0; n < FILES / KILLS; n++) {
        const name = `${n % 2 ? 'sub/' : ''}scan-${kill}-${n}.png`;
        const bytes = png(kill * 1_000 + n);
        hashes.set(name, createHash('sha256').update(bytes).digest('hex'));
        await writeFile(at(`in/${name}`), bytes);
      }
      // In the middle: a moment after the first files were accepted.
      await expect.poll(() => watch.stdout().split('\n').length, SOON).toBeGreaterThan(1 + random() * 6);
      await new Promise((resolve) => setTimeout(resolve, random() * 40));
      watch.kill('SIGKILL');
      await watch.done;
    }
    const last = start(['watch', at('in'), '--settle', '0.1', '--once', ...args(at)], { cwd: folder.path, env });
    const { code, stderr } = await last.done;
    const media: MediaDetail[] = [];
    const client = createClient({ baseUrl: service.url, token: service.token });
    for await (const mediaObject of client.control.media.list({ limit: 100 })) media.push(mediaObject);
    const left = (await readdir(at('in'), { recursive: true, withFileTypes: true })).filter((it) => it.isFile());
    const moved = await readdir(at('done'), { recursive: true, withFileTypes: true }).catch(() => []);
    const movedHashes: string[] = [];
    for (const entry of moved) {
      if (!entry.isFile()) continue;
      const bytes = await readFile(join(entry.parentPath, entry.name));
      movedHashes.push(createHash('sha256').update(bytes).digest('hex'));
    }
    return {
      code,
      stderr,
      hashes: [...hashes.values()].toSorted(),
      media,
      left: left.map(({ name }) => name),
      movedHashes,
    };
  } finally {
    for (const running of started) running.kill('SIGKILL');
    await service.end('SIGKILL');
  }
}

const shasOf = (media: MediaDetail[]) => media.map(({ sha256 }) => sha256).toSorted();

it('after repeated kill -9 of mds watch, every file is exactly one media object', {
  timeout: 300_000,
}, async () => {
  const { code, stderr, hashes, media, left } = await watchThroughKills(() => []);
  expect([code, stderr]).toEqual([0, expect.stringMatching(/^\d+ files?/)]);
  expect(shasOf(media)).toEqual(hashes);
  expect(left).toHaveLength(FILES);
});

it('after kill -9 with --done move, each file is one media object and in one place', {
  timeout: 300_000,
}, async () => {
  const { hashes, media, left, movedHashes } = await watchThroughKills((at) => [
    '--done',
    'move',
    '--done-dir',
    at('done'),
  ]);
  expect(shasOf(media)).toEqual(hashes);
  expect(left).toEqual([]);
  expect([...new Set(movedHashes)].toSorted()).toEqual(hashes);
});

it('after kill -9 with --done delete, every deleted file is a media object', { timeout: 300_000 }, async () => {
  const { hashes, media, left } = await watchThroughKills(() => ['--done', 'delete']);
  expect(shasOf(media)).toEqual(hashes);
  expect(left).toEqual([]);
});

it('waits while the service is killed and restarted', { timeout: 300_000 }, async () => {
  await using folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  await mkdir(at('in'));
  const first = await spawnService({ dataDir: at('data'), env: SERVICE });
  const port = new URL(first.url).port;
  const env = { MDS_URL: first.url, MDS_TOKEN: first.token, XDG_STATE_HOME: at('state') };
  await writeFile(at('in/a.png'), png(1));
  const watch = start(['watch', 'in', '--settle', '0.1'], { cwd: folder.path, env });
  try {
    await expect.poll(() => watch.stdout(), SOON).toContain('in/a.png');
    await first.end('SIGKILL');
    await writeFile(at('in/b.png'), png(2));
    await expect.poll(() => watch.stderr(), SOON).toContain('Waiting for it.');
    const second = await spawnService({ dataDir: at('data'), env: { ...SERVICE, MDS_PORT: port } });
    try {
      await expect.poll(() => watch.stdout(), SOON).toContain('in/b.png');
      watch.kill('SIGTERM');
      const { code, stderr } = await watch.done;
      expect(code).toBe(0);
      expect(stderr.match(/Waiting for it\./g)).toHaveLength(1);
      expect(stderr).toContain('The service accepts files again');
    } finally {
      await second.end('SIGKILL');
    }
  } finally {
    watch.kill('SIGKILL');
    await first.end('SIGKILL');
  }
});
