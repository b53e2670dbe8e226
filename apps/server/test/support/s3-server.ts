import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { endWithParent } from './child-guard.ts';

/** An access key of an S3 server. */
export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
}

/** An S3 server of this process on a free port of the loopback: OpenStack Swift with its s3api. */
export interface S3Server {
  /** `http://127.0.0.1:port`; stays when the server is killed and started again. */
  endpoint: string;
  region: string;
  /** May do everything. */
  credentials: S3Credentials;
  /** Region and credentials together, as `openS3ObjectStore` takes them. */
  access: { region: string; credentials: S3Credentials };
  /** A valid key that may do nothing with the buckets of `credentials`. */
  stranger: S3Credentials;
  /** What a process needs in its environment to use it: endpoint, credentials, region. */
  environment: Readonly<Record<string, string>>;
  /** Makes an empty bucket and gives its name. */
  createBucket(): Promise<string>;
  /** A client with the credentials, for what a test wants to see or do behind a store's back. The server's end ends it. */
  client: S3Client;
  /** Stops it with SIGSTOP: the system takes connections for it, and nothing is answered until `goOn`. */
  hang(): void;
  goOn(): void;
  /** Kills it as the kernel would for want of memory; what it holds stays for `restart`. */
  kill9(): Promise<void>;
  /** Starts it again on the same port with what it held. */
  restart(): Promise<void>;
  /** Ends it and removes all that it holds. */
  stop(): Promise<void>;
}

/** Debian's python3-swift belongs to the system's own Python. */
const PYTHON = '/usr/bin/python3';
const SCRIPT = fileURLToPath(new URL('s3-server.py', import.meta.url));
const REGION = 'us-east-1';
const START_MS = 30_000;

/** The program that runs the S3 server; null where Swift is not installed, or temporary files take no extended attributes. */
export function findS3Server(): string | null {
  const probe = `import os, tempfile, swift.common
with tempfile.NamedTemporaryFile() as file: os.setxattr(file.name, "user.mds", b"")`;
  try {
    execFileSync(PYTHON, ['-c', probe], { stdio: 'ignore' });
    return PYTHON;
  } catch {
    return null;
  }
}

/** What {@link findS3Server} looks for, as skipped tests call it. */
export const S3_SERVER = 'OpenStack Swift (python3-swift)';

/** Starts an S3 server. One for each test file, with a bucket for each test. @throws with what it said where it does not come up */
export async function startS3Server(): Promise<S3Server> {
  const folder = await mkdtemp(join(tmpdir(), 'mds-s3-'));
  const users = {
    tester: { secret: randomUUID(), groups: '.admin' },
    stranger: { secret: randomUUID(), groups: '' },
  };
  const credentials = { accessKeyId: 'test:tester', secretAccessKey: users.tester.secret };
  let running: { child: ChildProcess; port: number } | null = null;
  const end = async () => {
    if (running === null) return;
    const { child } = running;
    running = null;
    await kill(child);
  };
  try {
    running = await start(folder, 0, users);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  const { port } = running;
  const endpoint = `http://127.0.0.1:${port}`;
  // As in s3-bucket.ts: the SDK takes it from the environment alone.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
  const client = new S3Client({
    endpoint,
    credentials,
    region: REGION,
    forcePathStyle: true,
    // It does not know bodies with trailing checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  return {
    endpoint,
    region: REGION,
    credentials,
    access: { region: REGION, credentials },
    stranger: { accessKeyId: 'test:stranger', secretAccessKey: users.stranger.secret },
    environment: {
      MDS_S3_ENDPOINT: endpoint,
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
      AWS_REGION: REGION,
    },
    client,
    async createBucket() {
      const bucket = `test-${randomUUID()}`;
      await client.send(new CreateBucketCommand({ Bucket: bucket }));
      return bucket;
    },
    hang() {
      if (running === null) return;
      // Stopped, it would not see that we are gone.
      endWithParent(running.child, { folder });
      running.child.kill('SIGSTOP');
    },
    goOn: () => void running?.child.kill('SIGCONT'),
    kill9: end,
    async restart() {
      await end();
      running = await start(folder, port, users);
    },
    async stop() {
      client.destroy();
      await end();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function start(folder: string, port: number, users: object): Promise<{ child: ChildProcess; port: number }> {
  // In a session of its own: what is sent to all processes of a run is for the tests, and when they are gone it clears up.
  const child = spawn(PYTHON, [SCRIPT, folder, String(port)], { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4_000);
  });
  // It ends with the pipe: a test that is killed leaves no server behind.
  child.stdin.on('error', () => undefined).write(`${JSON.stringify({ users })}\n`);
  const late = setTimeout(() => child.kill('SIGKILL'), START_MS);
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      return { child, port: (JSON.parse(line) as { port: number }).port };
    }
  } finally {
    clearTimeout(late);
  }
  await kill(child);
  throw new Error(`The S3 server does not come up: ${said}`);
}

/** It keeps nothing in memory that was acknowledged: killing it ends it well. */
async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
