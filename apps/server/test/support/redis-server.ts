import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWithParent } from './child-guard.ts';
import { onFreePort, untilItAnswers } from './server-program.ts';
import { findSystemProgram } from './system-program.ts';

/** A Redis server of this process on a free port of the loopback. A restart keeps the port, but no data. */
export interface RedisServer {
  /** With its password. The id of a deployment separates the keys of tests. */
  url: string;
  /** Sends one command. @returns the raw response */
  command(...words: string[]): Promise<string>;
  /** Stops it with SIGSTOP: the system accepts connections, and nothing is answered until `goOn`. */
  hang(): void;
  goOn(): void;
  /** Kills it with SIGKILL. */
  kill9(): Promise<void>;
  /** Starts it again on the same port, empty. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

/** Its password, which must not appear outside the URL. */
export const REDIS_PASSWORD = 'another-horse-and-battery';

const START_MS = 10_000;

/** The program; null if this machine has none. */
export function findRedis(): string | null {
  return findSystemProgram('redis-server');
}

/**
 * Starts a Redis that keeps nothing on disk.
 * @param program what {@link findRedis} found
 * @throws with its output if it does not start
 */
export async function startRedisServer(program: string): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-redis-'));
  let port = 0;
  let child: ChildProcess;
  let exited: Promise<void>;

  const start = async () => {
    const settings = { bind: '127.0.0.1', port: String(port), save: '', appendonly: 'no', requirepass: REDIS_PASSWORD };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
    // In a session of its own: an interrupt at the terminal is for the tests, which then stop it.
    child = spawn(program, args, { cwd: folder, env: {}, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    endWithParent(child, { folder });
    const answers = async () => (await command('PING')) === '+PONG';
    ({ exited } = await untilItAnswers(child, { name: 'Redis', answers, withinMs: START_MS }));
  };

  /** Without a client library: that is under test. */
  const command = async (...words: string[]): Promise<string> => {
    const socket = connect(port, '127.0.0.1');
    try {
      const sent = [['AUTH', REDIS_PASSWORD], words].map(
        (parts) => `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`,
      );
      socket.end(sent.join(''));
      let answer = '';
      for await (const text of socket.setEncoding('utf8')) answer += text;
      // After the response to AUTH.
      return answer.slice(answer.indexOf('\r\n')).trim();
    } finally {
      socket.destroy();
    }
  };

  try {
    await onFreePort((free) => {
      port = free;
      return start();
    });
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }

  const kill9 = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  return {
    url: `redis://:${REDIS_PASSWORD}@127.0.0.1:${port}`,
    command,
    hang: () => void child.kill('SIGSTOP'),
    goOn: () => void child.kill('SIGCONT'),
    kill9,
    restart: start,
    async stop() {
      await kill9();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
