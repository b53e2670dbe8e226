import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createStagingSpace } from './staging-space.ts';

const MIB = 1024 * 1024;
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-space-'));
});
afterEach(() => rm(folder, { recursive: true }));

const full = { code: 'insufficient_storage', status: 507 };

describe('the space for incoming files', () => {
  it('is shared: reserved room is unavailable to others until it is released', async () => {
    const space = createStagingSpace({ folder, maxBytes: 100, minFreeBytes: 0 });
    const first = await space.reserve(60);
    await expect(space.reserve(41)).rejects.toMatchObject({ ...full, headers: { 'Retry-After': '60' } });
    const second = await space.reserve(40);
    first.release();
    first.release();
    expect(space.reservedBytes).toBe(40);
    await second.grow(100);
    expect([second.bytes, space.reservedBytes]).toEqual([100, 100]);
    await expect(second.grow(101)).rejects.toMatchObject(full);
    expect(second.bytes).toBe(100);
  });

  it('is never given twice to simultaneous requests', async () => {
    const space = createStagingSpace({ folder, maxBytes: 100, minFreeBytes: 0 });
    const outcomes = await Promise.allSettled([space.reserve(60), space.reserve(60), space.reserve(40)]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(space.reservedBytes).toBe(100);
  });

  it('keeps its free-space floor, counting both free bytes and unwritten reservations', async () => {
    const { bavail, bsize } = await statfs(folder);
    // Others write to this volume meanwhile: half of it is far from either end.
    const free = bavail * bsize;
    const space = createStagingSpace({ folder, maxBytes: 0, minFreeBytes: Math.floor(free / 2) });
    const most = Math.floor(free / 4);
    const first = await space.reserve(most);
    await expect(space.reserve(2 * most)).rejects.toMatchObject(full);
    first.wrote(most);
    // The bytes count as written: the volume would show them, and they are not counted twice.
    const second = await space.reserve(most);
    second.release();
    first.release();
    expect(space.reservedBytes).toBe(0);
    await (await space.reserve(most)).grow(most + MIB);
  });

  it('is reserved again for resumed files, even beyond the bounds', async () => {
    const space = createStagingSpace({ folder, maxBytes: 10, minFreeBytes: 0 });
    const resumed = space.resume(100, 30);
    expect(space.reservedBytes).toBe(100);
    await expect(space.reserve(1)).rejects.toMatchObject(full);
    resumed.wrote(100);
    resumed.release();
    await space.reserve(10);
  });

  it('cannot be reserved on a volume that is gone', async () => {
    const space = createStagingSpace({ folder: join(folder, 'gone'), maxBytes: 0, minFreeBytes: 0 });
    await expect(space.reserve(1)).rejects.toMatchObject({ code: 'ENOENT' });
    expect(space.reservedBytes).toBe(0);
  });
});
