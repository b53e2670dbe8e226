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
  /** `http://127.0.0.1:port`, also after a restart. */
  endpoint: string;
  region: string;
  /** Has every permission. */
  credentials: S3Credentials;
  /** Region and credentials together, as `openS3ObjectStore` takes them. */
  access: { region: string; credentials: S3Credentials };
  /** A valid key without any permission on the buckets of `credentials`. */
  stranger: S3Credentials;
  /** The environment of a process that uses it: endpoint, credentials, region. */
  environment: Readonly<Record<string, string>>;
  /** Makes an empty bucket and gives its name. */
  createBucket(): Promise<string>;
  /** A client with the credentials, to inspect or change objects without the store. `stop` closes it. */
  client: S3Client;
  /** Stops it with SIGSTOP: the system accepts connections, and nothing is answered until `goOn`. */
  hang(): void;
  goOn(): void;
  /** Kills it with SIGKILL. Its objects stay for `restart`. */
  kill9(): Promise<void>;
  /** Starts it again on the same port with its objects. */
  restart(): Promise<void>;
  /** Ends it and removes its objects. */
  stop(): Promise<void>;
}

/** Debian's python3-swift belongs to the system's own Python. */
const PYTHON = '/usr/bin/python3';
const SCRIPT = fileURLToPath(new URL('s3-server.py', import.meta.url));
const REGION = 'us-east-1';
const START_MS = 30_000;

/** The program that runs the S3 server; null if Swift is not installed, or the temporary folder has no extended attributes. */
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

/** The name of the S3 server in the titles of skipped tests. */
export const S3_SERVER = 'OpenStack Swift (python3-swift)';

/** Starts an S3 server: one for each test file, with a bucket for each test. @throws with its output if it does not start */
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
    // It does not support bodies with trailing checksums.
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
      // While it is stopped, it does not notice our end.
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
  // A session of its own: a signal to the processes of the run is for the tests. It cleans up after they end.
  const child = spawn(PYTHON, [SCRIPT, folder, String(port)], { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-4_000);
  });
  // It ends with the pipe, so a killed test leaves no server.
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
  throw new Error(`The S3 server does not start: ${output}`);
}

/** It keeps nothing acknowledged in memory, so it can be killed at any time. */
async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
