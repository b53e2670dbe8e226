import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, createClient, type Migration } from '@mds/client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { endWithParent } from './support/child-guard.ts';
import { png } from './support/pictures.ts';
import { findPostgres, type PostgresServer, startPostgresServer } from './support/postgres-server.ts';
import { nodeArguments } from './support/programs-under-test.ts';
import { findS3Server, S3_SERVER, type S3Server, startS3Server } from './support/s3-server.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';
import { describeWith } from './support/system-program.ts';

const bin = findPostgres();
/** Whether the run is on the embedded database, which the source of a move needs. */
const isEmbedded = process.env['MDS_TEST_POSTGRES'] === undefined;
const MEDIA = 12;

describeWith(
  isEmbedded && findS3Server() !== null ? bin : null,
  `PostgreSQL, with ${S3_SERVER}, and an embedded service`,
)('a running service that is moved to PostgreSQL and S3', () => {
  let folder: string;
  let postgres: PostgresServer;
  let s3: S3Server;
  let services: ServiceProcess[] = [];
  let env: Record<string, string>;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mds-migrate-'));
    [postgres, s3] = await Promise.all([startPostgresServer(bin ?? ''), startS3Server()]);
    const presets = join(folder, 'presets.json');
    await writeFile(presets, JSON.stringify([{ name: 'thumb', container: 'webp', width: 32, height: 32 }]));
    const { MDS_S3_ENDPOINT: _of, ...credentials } = s3.environment;
    env = { ...credentials, MDS_PRESETS: presets };
  });
  afterEach(async () => {
    await Promise.all(services.map((service) => service.end('SIGKILL')));
    services = [];
    await Promise.all([postgres.stop(), s3.stop()]);
    await rm(folder, { recursive: true, force: true });
  });

  const start = async (name: string, settings: Record<string, string> = {}) => {
    const service = await spawnService({ dataDir: join(folder, name), env: { ...env, ...settings } });
    services.push(service);
    return service;
  };

  async function settled(client: Client): Promise<Migration> {
    for (;;) {
      const migration = await client.control.migrations.current();
      if (migration.state !== 'running') return migration;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  it('answers every read, refuses writes at the end, and is equal at the destination', async () => {
    const old = await start('old');
    const client = createClient({ baseUrl: old.url, token: old.token, maxRetries: 0 });
    const ids: string[] = [];
    for (let n = 0; n < MEDIA; n += 1) ids.push((await client.control.media.ingest(png(n))).media.id);
    for (const id of ids) await client.control.media.waitUntilReady(id);
    const paths = ids.map((id) => `/media/${id}/thumb.webp`);
    const bytes = await Promise.all(paths.map((path) => bytesAt(old.url + path)));
    const list = await bytesAt(`${old.url}/api/v1/media`);

    const reading = startReaders(old.url, [...paths, '/api/v1/media'], [...bytes, list]);
    const database = await postgres.createDatabase();
    const storage = `s3://${await s3.createBucket()}/media`;
    const where = { database_url: database, storage_url: storage, s3_endpoint: s3.endpoint };
    const begun = await client.control.migrations.begin(where);
    expect(begun.state).toBe('running');
    await expect(client.control.migrations.begin(where)).rejects.toMatchObject({ code: 'state_conflict' });
    const migration = await settled(client);
    expect(migration).toMatchObject({ state: 'done', writes_refused: true, errors: [], open_uploads: 0 });
    expect(migration.rows.tables.find(({ name }) => name === 'media')?.rows).toBe(MEDIA);

    const password = new URL(database).password;
    expect(JSON.stringify([begun, migration])).not.toContain(password);
    expect(old.stderr()).not.toContain(password);

    const refused = await fetch(`${old.url}/control/v1/media`, {
      method: 'POST',
      headers: { authorization: `Bearer ${old.token}` },
      body: png(100),
    });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '30']);
    expect(await refused.json()).toMatchObject({ code: 'deployment_moved' });
    // At once, because waiting does not help.
    for (const [name, content] of [
      ['small.png', png(100)],
      ['resumable.png', Buffer.concat([png(101), Buffer.alloc(17 * 1024 * 1024)])],
    ] as const) {
      const file = join(folder, name);
      await writeFile(file, content);
      const began = performance.now();
      const result = await mdsIngest(old, file);
      expect(result).toMatchObject({ code: 1, stderr: expect.stringMatching(/was moved .*\(deployment_moved/) });
      expect(result.stderr).toContain('--url');
      expect(performance.now() - began).toBeLessThan(20_000);
    }
    // As many again while the source refuses writes.
    await reading.more(50);
    const { answers, wrong } = await reading.stop();
    expect(wrong).toEqual([]);
    expect(answers).toBeGreaterThan(100);

    const moved = await start('new', {
      ...{ MDS_DATABASE_URL: database, MDS_STORAGE_URL: storage, MDS_S3_ENDPOINT: s3.endpoint },
    });
    expect(Object.keys(migration.settings ?? {})).toEqual(['MDS_DATABASE_URL', 'MDS_STORAGE_URL', 'MDS_S3_ENDPOINT']);
    expect(await Promise.all(paths.map((path) => bytesAt(moved.url + path)))).toEqual(bytes);
    expect(await bytesAt(`${moved.url}/api/v1/media`)).toEqual(list);
    // The destination accepts the token of the source, and processes new media.
    const there = createClient({ baseUrl: moved.url, token: old.token });
    const { media } = await there.control.media.ingest(png(200));
    await there.control.media.waitUntilReady(media.id);

    expect((await client.control.migrations.cancel()).writes_refused).toBe(false);
    const again = await client.control.media.ingest(png(300));
    await client.control.media.waitUntilReady(again.media.id);
  });
});

/** The operator's command, still with the URL of the source. */
async function mdsIngest(service: ServiceProcess, file: string): Promise<{ code: number | null; stderr: string }> {
  const child = spawn(process.execPath, [...nodeArguments('mds'), 'ingest', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', MDS_URL: service.url, MDS_TOKEN: service.token },
  });
  endWithParent(child);
  const [[code], stderr] = await Promise.all([once(child, 'exit'), text(child.stderr)]);
  return { code, stderr };
}

/** Reads a path. On a busy machine, an overloaded service is asked again. */
async function bytesAt(url: string): Promise<Buffer> {
  for (;;) {
    const answer = await fetch(url);
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (answer.status === 200) return bytes;
    expect(JSON.parse(bytes.toString())).toMatchObject({ status: 503, code: 'overloaded' });
    await delay(1_000 * Number(answer.headers.get('retry-after')));
  }
}

/** Reads the paths repeatedly, four at a time. */
function startReaders(url: string, paths: readonly string[], expected: readonly Buffer[]) {
  let stopping = false;
  let answers = 0;
  const wrong: string[] = [];
  const read = async (from: number) => {
    for (let n = from; !stopping; n += 1) {
      const path = paths[n % paths.length] ?? '';
      const answer = await fetch(url + path);
      const body = Buffer.from(await answer.arrayBuffer());
      if (answer.status !== 200 || !body.equals(expected[n % paths.length] ?? Buffer.of())) {
        wrong.push(`${answer.status} ${path}`);
      }
      answers += 1;
    }
  };
  const readers = [0, 3, 6, 9].map(read);
  return {
    async more(count: number) {
      const until = answers + count;
      await expect.poll(() => answers, { timeout: 30_000 }).toBeGreaterThan(until);
    },
    async stop() {
      stopping = true;
      await Promise.all(readers);
      return { answers, wrong };
    },
  };
}
