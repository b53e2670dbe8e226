import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onFreePort, untilItAnswers } from './server-program.ts';

/** An nginx of this process, on a free port of the loopback. */
export interface Nginx {
  port: number;
  url: string;
  stop(): Promise<void>;
}

/** The files and settings of an nginx. */
export interface NginxOptions {
  /** Folder whose files it serves under their own paths. */
  root: string;
  /** Extension to Content-Type. */
  types: Readonly<Record<string, string>>;
  /** Further directives of its `http` block, without the semicolon. */
  directives?: readonly string[];
}

const START_MS = 5_000;

/**
 * Starts an nginx with one worker that serves only the files below `root`. It imports nothing of the service, because benchmarks use it.
 * @throws with the output of nginx if it does not start
 */
export async function startNginx(program: string, options: NginxOptions): Promise<Nginx> {
  return onFreePort((port) => startOnce(program, port, options));
}

async function startOnce(program: string, port: number, options: NginxOptions): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-nginx-'));
  await mkdir(join(folder, 'temp'));
  await writeFile(join(folder, 'nginx.conf'), configuration(folder, port, options));
  const child = spawn(program, ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  const { exited } = await untilItAnswers(child, {
    name: 'nginx',
    answers: () => answers(port),
    withinMs: START_MS,
  }).catch(async (error: unknown) => {
    await removeFolder();
    throw error;
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
    await removeFolder();
  };
  return { port, url: `http://127.0.0.1:${port}`, stop };
}

function configuration(folder: string, port: number, { root, types, directives = [] }: NginxOptions): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  // As root, nginx would run its worker as another user, who may not read a temporary folder.
  return `${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
pid ${join(folder, 'nginx.pid')};
error_log stderr error;
worker_processes 1;
events { worker_connections 1024; }
http {
  ${temporary.map((name) => `${name}_temp_path ${join(folder, 'temp', name)};`).join('\n  ')}
  types { ${Object.entries(types)
    .map(([extension, type]) => `${type} ${extension};`)
    .join(' ')} }
  default_type application/octet-stream;
  access_log off;
  sendfile on;
  # By default nginx wants the very date that it gave; RFC 9110, 13.1.3 says "earlier or equal".
  if_modified_since before;
  keepalive_requests 1000000000;
  ${directives.map((directive) => `${directive};`).join('\n  ')}
  server { listen 127.0.0.1:${port} backlog=1024; root ${root}; }
}
`;
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
