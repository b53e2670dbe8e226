import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { DataDirError, DataDirInUseError, openDataDir } from './data-dir.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'mds-data-'));
  path = join(parent, 'data');
});
afterEach(() => rm(parent, { recursive: true }));

const modeOf = async (file: string) => ((await stat(file)).mode & 0o777).toString(8);

describe('the data folder', () => {
  it('is closed to other users of the machine, with all its files', async () => {
    const dir = await openDataDir(path, { exclusive: true });
    await dir.announce({ url: 'http://127.0.0.1:8080' });
    await dir.controlToken(null);
    const repositories = openSqliteRepositories(dir.databaseFile);
    await repositories.probe();
    for (const folder of [dir.root, dir.objectsDir, dir.stagingDir, dir.uploadsDir, dir.scratchDir, dir.cacheDir]) {
      expect(await modeOf(folder), folder).toBe('700');
    }
    for (const entry of await readdir(path, { withFileTypes: true })) {
      if (entry.isFile()) expect(await modeOf(join(path, entry.name)), entry.name).toBe('600');
    }
    expect(await readdir(path)).toEqual(expect.arrayContaining(['mds.sqlite', 'mds.sqlite-wal', 'control-token']));
    await repositories.close();
    await dir.release();
  });

  it('creates the control token once, and uses a configured one if there is one', async () => {
    const dir = await openDataDir(path, { exclusive: true });
    const token = await dir.controlToken(null);
    expect(token).toMatch(/^mds_[\w-]{43}$/);
    expect(await dir.controlToken(null)).toBe(token);
    expect((await readFile(join(path, 'control-token'), 'utf8')).trim()).toBe(token);
    expect(await dir.controlToken('a-configured-token')).toBe('a-configured-token');
    await dir.release();
  });

  it('makes a readable token file private, and refuses a token that is too short', async () => {
    const dir = await openDataDir(path, { exclusive: true });
    const file = join(path, 'control-token');
    await writeFile(file, 'written-by-an-operator\n');
    await chmod(file, 0o644);
    expect(await dir.controlToken(null)).toBe('written-by-an-operator');
    expect(await modeOf(file)).toBe('600');
    await writeFile(file, '\n');
    await expect(dir.controlToken(null)).rejects.toThrow(/shorter than 16 characters.*MDS_CONTROL_TOKEN/);
    await dir.release();
  });

  it('is cleared of remains of a crash; objects, cache and resumable uploads stay', async () => {
    const before = await openDataDir(path, { exclusive: true });
    await before.release();
    const stale = [join(before.stagingDir, 'upload.part'), join(before.scratchDir, 'job', 'thumb.webp')];
    const incoming = join(before.objectsDir, '.incoming', 'copy');
    const kept = [
      join(before.objectsDir, 'originals', 'aa', 'object'),
      join(before.cacheDir, 'cached'),
      join(before.uploadsDir, 'upl_1'),
    ];
    for (const file of [...stale, incoming, ...kept]) {
      await mkdir(join(file, '..'), { recursive: true });
      await writeFile(file, 'x');
    }
    const worker = await openDataDir(path, { exclusive: false });
    expect(
      stale.every((file) => existsSync(file)),
      'a worker cleans nothing',
    ).toBe(true);
    await worker.release();
    const dir = await openDataDir(path, { exclusive: true });
    expect([...stale, incoming].filter((file) => existsSync(file))).toEqual([]);
    expect(kept.filter((file) => !existsSync(file))).toEqual([]);
    await dir.release();
  });

  it('is refused if it cannot be used, with its path and the remedy', async () => {
    const file = join(parent, 'file');
    await writeFile(file, 'not a folder');
    for (const bad of [file, join(file, 'below')]) {
      await expect(openDataDir(bad, { exclusive: true })).rejects.toThrow(DataDirError);
      await expect(openDataDir(bad, { exclusive: true })).rejects.toThrow(/cannot be used .*MDS_DATA_DIR/);
    }
  });

  it.runIf(process.platform === 'linux')(
    'is refused if the system creates no folders there, without endless retries',
    async () => {
      await expect(openDataDir('/proc/mds-data/below', { exclusive: true })).rejects.toThrow(
        /cannot be used .*MDS_DATA_DIR/,
      );
    },
  );

  it.skipIf(process.getuid?.() === 0)('is refused with the reason if this user may not write to it', async () => {
    await mkdir(path);
    await chmod(path, 0o500);
    await expect(openDataDir(path, { exclusive: true })).rejects.toThrow(/EACCES.*may write to/);
    await chmod(path, 0o700);
  });
});

describe('fault 23: two services on one data folder', () => {
  it('the second is refused with the process, address and start time of the first', async () => {
    const first = await openDataDir(path, { exclusive: true });
    const early = await openDataDir(path, { exclusive: true }).catch((error: unknown) => error);
    expect(early).toBeInstanceOf(DataDirInUseError);
    expect(String(early)).toContain(`process id ${process.pid}`);
    await first.announce({ url: 'http://127.0.0.1:4711' });
    const second = await openDataDir(path, { exclusive: true }).catch((error: unknown) => error);
    expect(second).toBeInstanceOf(DataDirInUseError);
    expect(String(second)).toContain(`process id ${process.pid}`);
    expect(String(second)).toContain('http://127.0.0.1:4711');
    expect(String(second)).toMatch(/running since \d{4}-\d\d-\d\dT/);
    await first.release();
    await first.release();
    const third = await openDataDir(path, { exclusive: true });
    await third.release();
  });

  it('a refused service does not touch the uploads of the first', async () => {
    const first = await openDataDir(path, { exclusive: true });
    await writeFile(join(first.stagingDir, 'upload.part'), 'on its way');
    await expect(openDataDir(path, { exclusive: true })).rejects.toThrow(DataDirInUseError);
    expect(await readdir(first.stagingDir)).toEqual(['upload.part']);
    await first.release();
  });

  it('workers may use the folder of a running service', async () => {
    const first = await openDataDir(path, { exclusive: true });
    const worker = await openDataDir(path, { exclusive: false });
    expect(worker.databaseFile).toBe(first.databaseFile);
    await worker.release();
    await expect(openDataDir(path, { exclusive: true })).rejects.toThrow(DataDirInUseError);
    await first.release();
  });

  it('after kill -9 of the first, the next starts, even if a child of the first lives', async () => {
    const holder = fileURLToPath(new URL('../../test/support/data-dir-holder.ts', import.meta.url));
    const process_ = spawn(process.execPath, ['--conditions=@mds/source', '--import', 'tsx', holder, path], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(process_.stdout.setEncoding('utf8'), 'data')) as [string];
    const childPid = Number(line);
    try {
      const refused = await openDataDir(path, { exclusive: true }).catch((error: unknown) => error);
      expect(String(refused)).toContain(`process id ${process_.pid}`);
      process_.kill('SIGKILL');
      await once(process_, 'exit');
      expect(() => process.kill(childPid, 0), 'its child lives').not.toThrow();
      const next = await openDataDir(path, { exclusive: true });
      await next.release();
    } finally {
      process_.kill('SIGKILL');
      process.kill(childPid, 'SIGKILL');
    }
  });
});
