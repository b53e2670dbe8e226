import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished } from 'vitest';
import { findPostgres } from './support/postgres-server.ts';
import { findS3Server, S3_SERVER } from './support/s3-server.ts';
import { testWith } from './support/system-program.ts';

const SERVERS = fileURLToPath(new URL('./support/backend-servers.ts', import.meta.url));
const programs = findPostgres() === null ? null : findS3Server();

testWith(programs, `PostgreSQL or ${S3_SERVER}`)(
  'the servers of a test run end with it and leave no files, even after kill -9',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mds-run-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    // The user of PostgreSQL needs access.
    await chmod(folder, 0o711);
    const child = spawn(process.execPath, ['--conditions=@mds/source', '--import', 'tsx', SERVERS], {
      ...{ detached: true, stdio: ['pipe', 'pipe', 'inherit'] as const },
      env: { ...process.env, TMPDIR: folder, MDS_TEST_MEMORY_FOLDER: folder },
    });
    const exited = once(child, 'exit');
    try {
      const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
      const { MDS_TEST_POSTGRES = '', MDS_S3_ENDPOINT = '' } = JSON.parse(line) as Record<string, string>;
      const urls = [MDS_TEST_POSTGRES, MDS_S3_ENDPOINT];
      const listening = async () => (await Promise.all(urls.map(isListening))).filter(Boolean).length;
      expect([await listening(), (await foldersIn(folder)).length]).toEqual([2, 2]);
      process.kill(-(child.pid ?? 0), 'SIGKILL');
      await exited;
      await expect.poll(listening, { timeout: 20_000 }).toBe(0);
      await expect.poll(() => foldersIn(folder), { timeout: 20_000 }).toEqual([]);
    } finally {
      child.stdin.end();
      await exited;
    }
  },
);

/** Folders of servers; the runtime has folders for compiled code, too. */
async function foldersIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.startsWith('mds-'));
}

function isListening(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    const answer = (is: boolean) => {
      socket.destroy();
      resolve(is);
    };
    socket.once('connect', () => answer(true)).once('error', () => answer(false));
  });
}
