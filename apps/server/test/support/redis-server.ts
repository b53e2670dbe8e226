import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWithParent } from './child-guard.ts';
import { onFreePort, untilItAnswers } from './server-program.ts';
import { findSystemProgram } from './system-program.ts';

/** A Redis of this process, on a free port of the loopback, which a restart keeps. It remembers nothing over a restart. */
export interface RedisServer {
  /** With its password; every test that wants keys of its own has them by the id of its deployment. */
  url: string;
  /** Sends one command. @returns the answer, as it comes over the wire */
  command(...words: string[]): Promise<string>;
  /** Stops it with SIGSTOP: the system takes connections for it, and nothing is answered until `goOn`. */
  hang(): void;
  goOn(): void;
  /** Kills it as the kernel would for want of memory. */
  kill9(): Promise<void>;
  /** Starts it again on the same port, empty. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

/** The password that it asks for: it must show nowhere else than in the URL. */
export const REDIS_PASSWORD = 'another-horse-and-battery';

const START_MS = 10_000;

/** The program; null where this machine has none. */
export function findRedis(): string | null {
  return findSystemProgram('redis-server');
}

/**
 * Starts a Redis that keeps nothing on disk.
 * @param program what {@link findRedis} found
 * @throws with what it said where it does not come up
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

  /** Without a client: the one that is under test must not be trusted here. */
  const command = async (...words: string[]): Promise<string> => {
    const socket = connect(port, '127.0.0.1');
    try {
      const sent = [['AUTH', REDIS_PASSWORD], words].map(
        (parts) => `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`,
      );
      socket.end(sent.join(''));
      let answer = '';
      for await (const text of socket.setEncoding('utf8')) answer += text;
      // After that to the password.
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
