import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { programOnPath } from '@mds/transcode';
import type { Need } from '../benchmark.ts';
import type { StoredObjects } from '../service/stored-objects.ts';

export const nginx: Need = { program: 'nginx', hint: 'install it (`apt-get install nginx`) and have it on PATH.' };

/** What nginx writes itself, or what tells about one answer only. */
const OWN_FIELDS: ReadonlySet<string> = new Set([
  ...[
    'date',
    'server',
    'connection',
    'keep-alive',
    'transfer-encoding',
    'content-length',
    'content-type',
    'content-range',
  ],
  ...['accept-ranges', 'etag', 'last-modified', 'x-request-id'],
]);
const START_MS = 5_000;

/** Fields of an answer that nginx does not have by itself and is told to send, so that both sides send the same. */
export function fieldsToAdd(answer: Response): [name: string, value: string][] {
  return [...answer.headers].filter(([name]) => !OWN_FIELDS.has(name));
}

/**
 * Starts nginx as one would for static files that matter: one worker, sendfile, open files kept open, no log, kept connections.
 * @throws with what nginx said where it does not come up
 */
export async function startNginx(
  { wwwDir, renditions }: Pick<StoredObjects, 'wwwDir' | 'renditions'>,
  fields: readonly (readonly [name: string, value: string])[],
): Promise<{ url: string; stop(): Promise<void> }> {
  const program = programOnPath('nginx');
  if (program === null) throw new Error('nginx is not on PATH.');
  const folder = await mkdtemp(join(tmpdir(), 'mds-bench-nginx-'));
  const port = await freePort();
  const types = new Map(renditions.map(({ path, contentType }) => [extname(path).slice(1), contentType]));
  await mkdir(join(folder, 'temp'));
  await writeFile(join(folder, 'nginx.conf'), configuration({ folder, port, wwwDir, types, fields }));
  const child = spawn(program, ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4_000);
  });
  const exited = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
    await rm(folder, { recursive: true, force: true });
  };
  const deadline = performance.now() + START_MS;
  while (!(await answers(port))) {
    if (child.exitCode !== null || performance.now() > deadline) {
      await stop();
      throw new Error(`nginx does not listen: ${said}`);
    }
    await sleep(20);
  }
  return { url: `http://127.0.0.1:${port}`, stop };
}

function configuration(options: {
  folder: string;
  port: number;
  wwwDir: string;
  types: ReadonlyMap<string, string>;
  fields: readonly (readonly [name: string, value: string])[];
}): string {
  const { folder, port, wwwDir, types, fields } = options;
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const quoted = (value: string) => `'${value.replaceAll("'", "\\'")}'`;
  // As root it would give its worker to another user, who may not read the folder.
  return `${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
pid ${join(folder, 'nginx.pid')};
error_log stderr error;
worker_processes 1;
events { worker_connections 1024; }
http {
  ${temporary.map((name) => `${name}_temp_path ${join(folder, 'temp', name)};`).join('\n  ')}
  types { ${[...types].map(([extension, type]) => `${type} ${extension};`).join(' ')} }
  access_log off;
  sendfile on;
  tcp_nopush on;
  open_file_cache max=10000 inactive=10m;
  open_file_cache_valid 60s;
  open_file_cache_min_uses 1;
  keepalive_timeout 65s;
  keepalive_requests 1000000000;
  etag on;
  server {
    listen 127.0.0.1:${port} backlog=1024;
    root ${wwwDir};
    ${fields.map(([name, value]) => `add_header ${name} ${quoted(value)};`).join('\n    ')}
  }
}
`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
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
