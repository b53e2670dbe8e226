import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { chown, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { programOnPath } from '@mds/transcode';
import { Client } from 'pg';
import { endWithParent } from './child-guard.ts';
import { childrenOf } from './process-tree.ts';
import { onFreePort, untilItAnswers } from './server-program.ts';

/** A PostgreSQL server of this process on a free port of the loopback. A restart keeps the port. */
export interface PostgresServer {
  /**
   * Makes an empty database.
   * @param template URL of a database to copy, without connections
   * @returns its URL
   */
  createDatabase(template?: string): Promise<string>;
  /** Shuts it down with all connections, and removes its data. */
  stop(): Promise<void>;
  /** Kills all of its processes. Its data stay. */
  kill9(): Promise<void>;
  /** Starts it again after {@link kill9}, and waits until it has recovered. */
  restart(): Promise<void>;
}

export interface PostgresServerOptions {
  /** Whether commits wait for the disk. Default: false, because most tests kill processes only. */
  fsync?: boolean;
  /** Settings of `postgresql.conf`. */
  settings?: Readonly<Record<string, string>>;
}

/** The password of its only user. It must not appear outside the URLs. */
export const POSTGRES_PASSWORD = 'correct-horse-battery-staple';

const USER = 'mds';
const START_MS = 60_000;
const RESTARTS = 3;
const run = promisify(execFile);

/** The folder with the programs of the newest PostgreSQL; null if there is none. */
export function findPostgres(): string | null {
  // Debian and Ubuntu keep each version in a folder of its own, off the PATH.
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = versions.map((version) => join(debian, version, 'bin'));
  const configured = programOnPath('pg_config');
  if (configured !== null) folders.push(execFileSync(configured, ['--bindir'], { encoding: 'utf8' }).trim());
  const onPath = programOnPath('initdb');
  if (onPath !== null) folders.push(dirname(onPath));
  return folders.find((folder) => ['initdb', 'postgres'].every((name) => existsSync(join(folder, name)))) ?? null;
}

/**
 * Starts a PostgreSQL whose data is in a folder of its own.
 * @param bin what {@link findPostgres} found
 * @throws with its output if it does not start
 */
export async function startPostgresServer(bin: string, options: PostgresServerOptions = {}): Promise<PostgresServer> {
  const folder = await mkdtemp(join(options.fsync ? tmpdir() : await inMemory(), 'mds-postgres-'));
  const user = unprivilegedUser();
  const as = user ?? {};
  const data = join(folder, 'data');
  const passwordFile = join(folder, 'password');
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  try {
    await writeFile(passwordFile, POSTGRES_PASSWORD);
    if (user) for (const path of [folder, passwordFile]) await chown(path, user.uid, user.gid);
    const how = [`--pwfile=${passwordFile}`, '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '--no-sync'];
    await run(join(bin, 'initdb'), ['-D', data, '-U', USER, ...how], { ...as, cwd: folder, env: {} });
  } catch (error) {
    await removeFolder();
    throw error;
  }

  const settings: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: '200',
    shared_buffers: '64MB',
    ...(options.fsync ? {} : { fsync: 'off', full_page_writes: 'off' }),
    ...options.settings,
  };
  let port = 0;
  let child: ChildProcess;
  let exited: Promise<void>;

  const url = (database: string) => `postgres://${USER}:${POSTGRES_PASSWORD}@127.0.0.1:${port}/${database}`;

  const start = async () => {
    const args = Object.entries({ ...settings, port: String(port) }).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ]);
    // A session of its own: an interrupt at the terminal is for the tests, which then stop it.
    child = spawn(join(bin, 'postgres'), ['-D', data, ...args], {
      ...{ ...as, cwd: folder, env: {}, detached: true },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    // QUIT ends it at once, and frees its shared memory.
    endWithParent(child, { signal: 'QUIT', folder });
    const answering = () => answers(url('postgres'));
    ({ exited } = await untilItAnswers(child, { name: 'PostgreSQL', answers: answering, withinMs: START_MS }));
  };

  try {
    await onFreePort((free) => {
      port = free;
      return start();
    });
  } catch (error) {
    await removeFolder();
    throw error;
  }

  let databases = 0;
  return {
    async createDatabase(template) {
      databases += 1;
      const name = `mds_${databases}`;
      const client = new Client({ connectionString: url('postgres') });
      await client.connect();
      try {
        const copied = template === undefined ? 'template0' : new URL(template).pathname.slice(1);
        // Copying its files takes half as long as logging its pages. Older versions know no other way.
        const { rows } = await client.query(
          "SELECT current_setting('server_version_num')::int >= 150000 AS has_choice",
        );
        const strategy = rows[0].has_choice ? 'STRATEGY file_copy' : '';
        await client.query(`CREATE DATABASE ${name} TEMPLATE ${copied} ${strategy}`);
      } finally {
        await client.end();
      }
      return url(name);
    },

    async stop() {
      // Fast shutdown: connections are closed.
      child.kill('SIGINT');
      await exited;
      await removeFolder();
    },

    async kill9() {
      const children = await childrenOf(child.pid ?? 0);
      child.kill('SIGKILL');
      for (const pid of children) killIfThere(pid);
      await exited;
    },

    async restart() {
      for (let tries = 1; ; tries += 1) {
        try {
          return await start();
        } catch (error) {
          // Its children hold the shared memory until they notice the end of their parent.
          if (tries === RESTARTS) throw error;
          await sleep(500);
        }
      }
    },
  };
}

/** Enough for a suite with some hundred databases of 8 MiB, and for those beside it. */
const MEMORY_BYTES = 6 * 1024 ** 3;

/** A folder in memory, which copies databases ten times as fast; the temporary folder if memory is short. */
async function inMemory(): Promise<string> {
  const folder = process.env['MDS_TEST_MEMORY_FOLDER'] ?? '/dev/shm';
  if (!existsSync(folder) || freemem() < MEMORY_BYTES) return tmpdir();
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize < MEMORY_BYTES ? tmpdir() : folder;
}

/** PostgreSQL refuses to run as root. Null: as the current user. */
function unprivilegedUser(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  for (const name of ['postgres', 'nobody']) {
    try {
      const [uid, gid] = ['-u', '-g'].map((which) => Number(execFileSync('id', [which, name], { stdio: 'pipe' })));
      if (uid !== undefined && gid !== undefined) return { uid, gid };
    } catch (error) {
      if (name === 'nobody') throw error;
    }
  }
  return null;
}

async function answers(connectionString: string): Promise<boolean> {
  const client = new Client({ connectionString });
  // The server may end the connection while it starts.
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('SELECT 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
