import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MEDIA_ID_HEADER, TUS_VERSION, UPLOADS_PATH } from '@mds/contract';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { originalKey } from '../src/base/object-key.ts';
import { areBackendsRemote, openStoreOf } from './support/backends.ts';
import { noisePng } from './support/pictures.ts';
import { peakDuring, residentBytes } from './support/process-memory.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';

const MIB = 1024 * 1024;
/** Fewer on the S3 server of the tests: it handles one request at a time, so the first would time out before the last begins. */
const UPLOADS = areBackendsRemote ? 200 : 1_000;
const WARM_UPS = 50;
/** Memory that they may add. */
const MOST_MORE_BYTES = 150 * MIB;

let dataDir: string;
let service: ServiceProcess;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mds-uploads-'));
  service = await spawnService({ dataDir, built: true, env: { MDS_ROLES: 'api' } });
});
afterAll(async () => {
  await service?.end('SIGTERM');
  await rm(dataDir, { recursive: true, force: true });
});

/** A request to the service on a connection of its own. */
function ask(method: string, path: string, headers: Record<string, string | number>): ClientRequest {
  return request(new URL(path, service.url), {
    method,
    agent: false,
    headers: { Authorization: `Bearer ${service.token}`, 'Tus-Resumable': TUS_VERSION, ...headers },
  });
}

async function answerTo(asked: ClientRequest): Promise<IncomingMessage> {
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  response.resume();
  return response;
}

/** An open request whose upload has half arrived. */
async function beginUpload(bytes: Buffer): Promise<{ finish(): Promise<string | undefined> }> {
  const created = await answerTo(ask('POST', UPLOADS_PATH, { 'Upload-Length': bytes.length }).end());
  expect(created.statusCode).toBe(201);
  const half = Math.floor(bytes.length / 2);
  const patch = ask('PATCH', String(created.headers.location), {
    'Upload-Offset': 0,
    'Content-Type': 'application/offset+octet-stream',
    'Content-Length': bytes.length,
  });
  await new Promise((resolve) => patch.write(bytes.subarray(0, half), resolve));
  return {
    async finish() {
      const answered = answerTo(patch);
      patch.end(bytes.subarray(half));
      const { statusCode, headers } = await answered;
      expect(statusCode).toBe(204);
      return headers[MEDIA_ID_HEADER.toLowerCase()]?.toString();
    },
  };
}

it.skipIf(process.platform !== 'linux')(
  `${UPLOADS} open uploads stay within the memory limit, and arrive byte-exact`,
  async () => {
    const pid = service.child.pid ?? 0;
    const pictures = Array.from({ length: UPLOADS }, (_, index) => noisePng(`at once ${index}`, 160, 120));
    // The first uploads load modules, compile code and start engine children, which are not measured.
    for (let n = 0; n < WARM_UPS; n++) await (await beginUpload(noisePng(`before ${n}`, 160, 120))).finish();
    const before = await residentBytes(pid);

    const ids = new Map<string, Buffer>();
    const peak = await peakDuring(pid, async () => {
      const open: { bytes: Buffer; finish(): Promise<string | undefined> }[] = [];
      // Concurrently: on a busy machine the first would time out before the last begins.
      const left = pictures.values();
      const openSome = async () => {
        for (const bytes of left) open.push({ bytes, ...(await beginUpload(bytes)) });
      };
      await Promise.all(Array.from({ length: 32 }, openSome));
      await expect.poll(() => figure('mds_uploads_receiving'), { timeout: 30_000 }).toBe(UPLOADS);
      // All of them at once.
      await Promise.all(open.map(async ({ bytes, finish }) => ids.set((await finish()) ?? '', bytes)));
    });
    const moreMib = Math.round((peak - before) / MIB);
    console.log(`${UPLOADS} uploads open at once: ${moreMib} MiB more than the ${Math.round(before / MIB)} of before`);
    expect(peak - before).toBeLessThan(MOST_MORE_BYTES);

    expect(ids.size).toBe(UPLOADS);
    await using store = await openStoreOf(dataDir);
    for (const bytes of ids.values()) {
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      expect((await store.readAll(originalKey(sha256)))?.equals(bytes)).toBe(true);
    }
    expect(await figure('mds_uploads_open')).toBe(0);
  },
  300_000,
);

async function figure(name: string): Promise<number> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
}
