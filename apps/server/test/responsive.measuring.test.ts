import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@mds/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { png } from './support/pictures.ts';
import { spawnService } from './support/service-process.ts';

/** Libraries that a codec loads into a process. */
const CODECS = /libvips|sharp-[^/]*\.node|libheif/;
/** A synchronous decode, encode or write of these pictures would take several times as long. */
const PATIENCE_MS = 400;

describe('invariant 4: the HTTP process never blocks', () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mds-responsive-'));
  });
  afterEach(() => rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));

  it('it loads no codec and stays responsive while large pictures are processed', async () => {
    const service = await spawnService({ dataDir });
    try {
      const client = createClient({ baseUrl: service.url, token: service.token });
      const pictures = [1, 2, 3].map((seed) => png(seed, 3000, 2000));
      let working = true;
      const waits: number[] = [];
      const asking = (async () => {
        while (working) {
          const began = performance.now();
          await (await fetch(`${service.url}/healthz`)).arrayBuffer();
          waits.push(performance.now() - began);
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      })();
      await Promise.all(
        pictures.map(async (body) => {
          const { media } = await client.control.media.ingest(body);
          await client.control.media.waitUntilReady(media.id, { timeoutMs: 60_000 });
          await (await client.download(client.url(media, 'large', { extension: 'webp' }))).arrayBuffer();
        }),
      );
      working = false;
      await asking;
      const typical = waits.sort((a, b) => a - b)[Math.floor(waits.length * 0.95)] ?? Number.POSITIVE_INFINITY;
      expect(waits.length).toBeGreaterThan(20);
      expect(typical).toBeLessThan(PATIENCE_MS);

      if (!existsSync('/proc/self/maps')) return;
      const loaded = async (pid: number | string) =>
        CODECS.test(await readFile(`/proc/${pid}/maps`, 'utf8').catch(() => ''));
      expect(await loaded(service.child.pid ?? 0)).toBe(false);
      // The check itself works: a child of the service or of its worker has loaded a codec.
      const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
      expect((await Promise.all(pids.map(loaded))).some(Boolean)).toBe(true);
    } finally {
      await service.end('SIGKILL');
    }
  }, 120_000);
});
