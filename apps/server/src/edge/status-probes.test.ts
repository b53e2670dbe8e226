import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { smallVolume } from '../../test/support/small-volume.ts';
import type { Probe } from '../status/status-board.ts';
import { cacheFolderProbe, originProbe } from './status-probes.ts';

const volume = smallVolume({ mebibytes: 1 });
const check = (probe: Probe) => probe.check(new AbortController().signal);

describe('the probe of the cache folder', () => {
  it('reports degraded if nothing can be stored, and fails if the folder is gone', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mds-probe-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    let takesNoMore = false;
    const probe = cacheFolderProbe(folder, () => takesNoMore);
    expect(await check(probe)).toBe('operational');
    takesNoMore = true;
    expect(await check(probe)).toBe('degraded_performance');
    await rm(folder, { recursive: true });
    await expect(check(probe)).rejects.toThrow('ENOENT');
  });

  it.skipIf(!volume.available)('reports no outage if its volume is full', () =>
    volume.use(async (root) => {
      const folder = join(root, 'cache');
      await mkdir(folder);
      const probe = cacheFolderProbe(folder, () => false);
      expect(await check(probe)).toBe('operational');
      await expect(writeFile(join(root, 'everything'), Buffer.alloc(2 * 1024 * 1024))).rejects.toThrow('ENOSPC');
      expect(await check(probe)).toBe('degraded_performance');
    }),
  );
});

describe('the probe of the origin', () => {
  it('waits for the first answer of the origin before it reports a state', async () => {
    let conclude: () => void = () => undefined;
    const follower = {
      isFollowing: false,
      concluded: new Promise<void>((resolve) => {
        conclude = resolve;
      }),
    };
    const origin = { isUp: true, acceptance: { refusal: null as string | null } };
    const first = check(originProbe({ origin, follower }));
    setTimeout(() => {
      follower.isFollowing = true;
      conclude();
    }, 100);
    expect(await first).toBe('operational');
    follower.isFollowing = false;
    expect(await check(originProbe({ origin, follower }))).toBe('degraded_performance');
    origin.acceptance.refusal = 'The token is wrong.';
    expect(await check(originProbe({ origin, follower }))).toBe('major_outage');
  });

  it('does not wait for an origin that never answers', async () => {
    const follower = { isFollowing: false, concluded: new Promise<void>(() => undefined) };
    const began = performance.now();
    const state = await check(originProbe({ origin: { isUp: false, acceptance: { refusal: null } }, follower }));
    expect(state).toBe('major_outage');
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});
