import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTusService } from './tus-service.ts';

const SCRIPT = fileURLToPath(new URL('./uploading-process.ts', import.meta.url));
const MIB = 1024 * 1024;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-upload-process-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Line {
  acceptedBytes?: number;
  id?: string;
  maxBytes?: number;
}

/** @param onLine receives each line of the process, and can kill it there */
async function runUpload(args: string[], onLine: (line: Line, child: ChildProcess) => void): Promise<number | null> {
  const child = spawn(process.execPath, ['--conditions=@mds/source', '--import', 'tsx', SCRIPT, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, XDG_STATE_HOME: folder },
  });
  createInterface({ input: child.stdout }).on('line', (text) => onLine(JSON.parse(text) as Line, child));
  const [code] = (await once(child, 'close')) as [number | null];
  return code;
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

it('another process resumes after a kill and sends only the missing bytes', async () => {
  await using service = await startTusService();
  const file = join(folder, 'film.bin');
  await writeFile(file, randomBytes(12 * MIB));
  const killed = await runUpload([service.url, file, 'chunks'], ({ acceptedBytes = 0 }, child) => {
    if (acceptedBytes >= 5 * MIB) child.kill('SIGKILL');
  });
  expect(killed).toBe(null);
  const [kept = ''] = await readdir(join(folder, 'mds', 'uploads'));
  expect(await readFile(join(folder, 'mds', 'uploads', kept), 'utf8')).not.toContain('secret');

  let first: number | undefined;
  const code = await runUpload([service.url, file, 'chunks'], ({ acceptedBytes }) => {
    first ??= acceptedBytes;
  });
  expect(code).toBe(0);
  expect(first).toBeGreaterThanOrEqual(5 * MIB);
  expect(service.requests.filter((line) => line.startsWith('POST '))).toHaveLength(1);
  expect(service.arrived.map(({ sha256 }) => sha256)).toEqual([await sha256Of(file)]);
  expect(await readdir(join(folder, 'mds', 'uploads'))).toEqual([]);
});

it.each(['file', 'stream'])('a process needs far less memory than the size of its upload: a %s', async (how) => {
  await using service = await startTusService();
  const file = join(folder, 'large.bin');
  const handle = await open(file, 'w');
  await handle.truncate(400 * MIB);
  await handle.write(randomBytes(MIB), 0, MIB, 300 * MIB);
  await handle.close();
  let maxBytes = 0;
  expect(
    await runUpload([service.url, file, how], (line) => {
      maxBytes = line.maxBytes ?? 0;
    }),
  ).toBe(0);
  expect(service.arrived.map(({ sha256 }) => sha256)).toEqual([await sha256Of(file)]);
  expect(maxBytes).toBeGreaterThan(0);
  expect(maxBytes).toBeLessThan(280 * MIB);
});
