import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../base/logger.ts';
import { KEPT_EVENTS } from '../db/event-repository.ts';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import type { PurgeScope } from '../delivery/purge-scope.ts';
import { createNodeFollower } from './node-follower.ts';

let repositories: Repositories;
beforeEach(() => {
  repositories = openSqliteRepositories(':memory:');
});
afterEach(() => repositories.close());

/** Starts a follower. @returns the list of what it has purged */
const follow = async (overrides: Partial<Pick<Repositories['events'], 'after' | 'onAppended'>> = {}) => {
  const purged: PurgeScope[] = [];
  const follower = createNodeFollower({
    events: { ...repositories.events, ...overrides },
    regions: repositories.regions,
    self: { id: 'node-b', region: 'fra1' },
    delivery: { purge: (what) => void purged.push(what) },
    logger: createLogger('silent'),
    pollMs: 50,
  });
  await follower.start();
  onTestFinished(() => follower.stop());
  return purged;
};

const purge = (data: { media_id: string | null; path: string | null; objects?: string[] }) =>
  repositories.events.append({ projectId: null, type: 'cache.purged', data });

const throughOf = async () => (await repositories.regions.nodes()).find(({ id }) => id === 'node-b')?.eventsThrough;

describe('a node among others', () => {
  beforeEach(() =>
    repositories.regions.put({
      ...{ code: 'fra1', name: 'Frankfurt', zone: 'europe-central', country: 'DE', maintenance: false },
    }),
  );

  it('drops content that was purged through another node, and confirms it', async () => {
    await purge({ media_id: 'med_before', path: null });
    const purged = await follow();
    await purge({ media_id: 'med_a', path: null });
    await purge({ media_id: null, path: '/media/med_b/thumb.webp', objects: ['ab'] });
    const last = await purge({ media_id: null, path: null });
    await expect.poll(throughOf, { timeout: 10_000 }).toBe(last);
    expect(purged).toEqual([{ mediaId: 'med_a' }, { path: '/media/med_b/thumb.webp', objects: ['ab'] }, 'everything']);
  });

  it('drops media that were deleted through another node', async () => {
    const purged = await follow();
    await repositories.events.append({
      projectId: 'default',
      type: 'media.deleted',
      data: { id: 'med_a', status: 'ready', error: null },
    });
    await expect.poll(() => purged, { timeout: 10_000 }).toEqual([{ mediaId: 'med_a' }]);
  });

  it('drops everything if events that it has not read were deleted', async () => {
    const { after } = repositories.events;
    let standsStill = true;
    const purged = await follow({
      after: async (seq, options) => (standsStill ? [] : after(seq, options)),
    });
    await purge({ media_id: 'med_lost', path: null });
    const data = { code: 'fra1', status: 'operational' };
    for (let n = 1; n < KEPT_EVENTS; n++) {
      await repositories.events.append({ projectId: null, type: 'region.status_changed', data });
    }
    const last = await purge({ media_id: 'med_kept', path: null });
    standsStill = false;
    await expect.poll(throughOf, { timeout: 10_000 }).toBe(last);
    expect(purged).toEqual(['everything', { mediaId: 'med_kept' }]);
  });

  it('finds events even if no notice arrives', async () => {
    const purged = await follow({ onAppended: () => () => undefined });
    await purge({ media_id: 'med_a', path: null });
    await expect.poll(() => purged, { timeout: 10_000 }).toEqual([{ mediaId: 'med_a' }]);
  });
});
