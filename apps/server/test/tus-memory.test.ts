import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { Agent, type ClientRequest, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UPLOADS_PATH } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noisePng } from './pictures.ts';
import { type ServiceProcess, spawnService } from './service-process.ts';

const UPLOADS = 1000;
/** More than what the service holds for each must be on disk. */
const SENT_BYTES = 200_000;
const MOST_MORE_BYTES = 150 * 1024 * 1024;

let dataDir: string;
let service: ServiceProcess;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'mds-tus-memory-'));
  service = await spawnService({ dataDir });
}, 60_000);
afterAll(async () => {
  await service.end('SIGKILL');
  await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

const headers = () => ({ authorization: `Bearer ${service.token}`, 'tus-resumable': '1.0.0' });
const residentBytes = async () => {
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  return Number(/^mds_process_resident_memory_bytes (\S+)/m.exec(metrics)?.[1]);
};
const stagedBytes = async () => {
  const folder = join(dataDir, 'uploads');
  const sizes = (await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
};

describe('many senders at once', () => {
  it(`${UPLOADS} uploads that are arriving take less than 150 MiB more than none, all go on, and the service answers meanwhile`, async () => {
    const bytes = noisePng('one of many', 400, 300);
    const length = bytes.length;
    const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });
    const idle = await residentBytes();
    const sendings: ClientRequest[] = [];
    const paths: string[] = [];
    const begin = async () => {
      const created = await fetch(`${service.url}${UPLOADS_PATH}`, {
        method: 'POST',
        headers: { ...headers(), 'upload-length': String(length) },
      });
      const path = created.headers.get('location') ?? '';
      paths.push(path);
      const octets = {
        'content-type': 'application/offset+octet-stream',
        'upload-offset': '0',
        'content-length': length,
      };
      const sending = request(`${service.url}${path}`, {
        method: 'PATCH',
        agent,
        headers: { ...headers(), ...octets },
      });
      sending.on('error', () => undefined).write(bytes.subarray(0, SENT_BYTES));
      sendings.push(sending);
    };
    for (let n = 0; n < UPLOADS; n += 20) await Promise.all(Array.from({ length: 20 }, begin));
    await expect.poll(stagedBytes, { timeout: 120_000, interval: 500 }).toBe(UPLOADS * SENT_BYTES);

    const more = (await residentBytes()) - idle;
    console.info(`${UPLOADS} uploads at once: ${(more / 1024 / 1024).toFixed(1)} MiB more than idle`);
    expect(more).toBeLessThan(MOST_MORE_BYTES);
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200);

    // They are the same picture: each that goes on to its end becomes the one medium.
    const ends = sendings.slice(0, 10).map(
      (sending) =>
        new Promise<string>((resolve) => {
          sending.once('response', (res) => {
            res.resume();
            resolve(`${res.statusCode} ${res.headers['upload-offset']}`);
          });
        }),
    );
    for (const sending of sendings.slice(0, 10)) sending.end(bytes.subarray(SENT_BYTES));
    expect(new Set(await Promise.all(ends))).toEqual(new Set([`204 ${length}`]));
    for (const sending of sendings) sending.destroy();
  }, 240_000);
});
