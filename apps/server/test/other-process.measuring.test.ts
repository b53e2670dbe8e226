import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openRepositoriesOf } from './support/backends.ts';
import { spawnService } from './support/service-process.ts';

it('a write of another process shows within a second in a list under load', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'mds-other-process-'));
  const service = await spawnService({ dataDir, env: { MDS_ROLES: 'api,edge' } });
  // This process stands for a worker, or another writer of the database.
  const { media, regions, close } = await openRepositoriesOf(dataDir);
  try {
    const ask = async (path: string) => await (await fetch(`${service.url}${path}`)).text();
    const shownAfterMs = async (path: string, write: () => Promise<unknown>, shows: (text: string) => boolean) => {
      // Cached now, and requested repeatedly.
      for (let i = 0; i < 3; i += 1) expect(shows(await ask(path))).toBe(false);
      const began = performance.now();
      await write();
      const writtenMs = performance.now() - began;
      while (!shows(await ask(path))) if (performance.now() - began > 10_000) return Number.NaN;
      return performance.now() - began - writtenMs;
    };

    const times: number[] = [];
    for (let i = 0; i < 5; i += 1) {
      const id = `med_01k0c4s6q8y2v4w6x8${i.toString().padStart(8, '0')}`;
      const mediaObject = {
        ...{
          id,
          projectId: 'default',
          createdAtMs: 1_800_000_000_000,
          contentType: 'image/png',
          bytes: 1,
          width: 1,
          height: 1,
        },
        ...({ filename: 'a.png', sha256: i.toString(16).padStart(64, '0'), kind: 'image', format: 'png' } as const),
        ...{ durationMs: null, codecs: ['png'], warnings: [], identified: {} },
      };
      const added = () => media.accept(mediaObject, { duplicate: 'allow', idempotencyKey: null });
      times.push(await shownAfterMs('/api/v1/media', added, (text) => text.includes(id)));
    }
    expect(Math.max(...times)).toBeLessThan(1_000);
    // Usually at once: by the version, not by age.
    expect(times.sort((a, b) => a - b)[2]).toBeLessThan(400);
    const region = await regions.find('fra1');
    if (!region) throw new Error('the service has not registered its region');
    const maintain = () => regions.put({ ...region, maintenance: true });
    const inMaintenance = (text: string) => text.includes('under_maintenance');
    expect(await shownAfterMs('/api/v1/regions', maintain, inMaintenance)).toBeLessThan(1_000);
  } finally {
    await close();
    await service.end('SIGKILL');
    await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}, 60_000);
