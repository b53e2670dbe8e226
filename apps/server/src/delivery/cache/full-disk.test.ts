import { randomBytes } from 'node:crypto';
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { smallVolume } from '../../../test/support/small-volume.ts';
import { startDelivery } from '../delivery.fixture.ts';

const MIB = 1024 * 1024;
const volume = smallVolume({ mebibytes: 6 });

it.skipIf(!volume.available)('fault 17: with a full cache disk, delivery continues uncached and logs that once', () =>
  volume.use(async (root) => {
    const house = await startDelivery({ remote: true, memoryCacheBytes: 8 * MIB });
    onTestFinished(() => house.close());
    await mkdir(join(root, 'cache'));
    await symlink(join(root, 'cache'), join(house.folder, 'cache'));
    await house.restart({ diskCacheBytes: 256 * MIB });
    const films = Array.from({ length: 3 }, (_, n) => ({
      ...{ name: `film${n}`, extension: 'mp4', contentType: 'video/mp4' },
      content: randomBytes(5 * MIB),
    }));
    const id = await house.addMedia(films);
    const statuses: unknown[] = [];
    for (const { name, content } of [...films, ...films]) {
      const { body, headers } = await house.get(`/media/${id}/${name}.mp4`);
      expect(body.equals(content)).toBe(true);
      statuses.push(headers['cache-status']);
    }
    // Only stored objects are marked as stored: there is room for one piece of five of the second film.
    const passed = 'fra1; fwd=uri-miss';
    expect(statuses).toEqual([`${passed}; stored`, passed, passed, 'fra1; hit', passed, passed]);
    expect(house.delivery.stats.diskFailing).toBe(true);
    const warnings = house.logged.filter(({ level }) => level >= 40);
    expect(warnings.map(({ msg }) => msg)).toEqual([expect.stringContaining('cannot be written')]);
    // Objects stored before are kept.
    expect((await house.get(`/media/${id}/film0.mp4`)).headers['x-cache']).toBe('HIT');
  }),
);
