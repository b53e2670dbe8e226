import { describe, expect, it } from 'vitest';
import type { RepositoriesFixture } from './repositories.fixture.ts';

/** Regions and their nodes. */
export function regionsConformance({ repositories }: RepositoriesFixture): void {
  describe('regions', () => {
    const frankfurt = { code: 'fra1', name: 'Frankfurt', zone: 'europe-central', country: 'DE', maintenance: false };

    it('are added, changed, and listed by code', async () => {
      await repositories.regions.put({ ...frankfurt, code: 'lon1', name: 'London' });
      await repositories.regions.put(frankfurt);
      await repositories.regions.put({ ...frankfurt, maintenance: true });
      expect((await repositories.regions.list()).map(({ code }) => code)).toEqual(['fra1', 'lon1']);
      expect(await repositories.regions.find('fra1')).toEqual({ ...frankfurt, maintenance: true });
      expect(await repositories.regions.find('ams1')).toBeNull();
    });

    it('have nodes that send heartbeats, sign off, and are removed after a long absence', async () => {
      await repositories.regions.put(frankfurt);
      await repositories.regions.heartbeat({ id: 'node-1', region: 'fra1', atMs: 1000 });
      await repositories.regions.heartbeat({ id: 'node-2', region: 'fra1', atMs: 2000 });
      await repositories.regions.heartbeat({ id: 'node-3', region: 'fra1', atMs: 2000 });
      const beatOf = async (id: string) => (await repositories.regions.nodes()).find((node) => node.id === id)?.beat;
      const before = (await beatOf('node-2')) ?? Number.POSITIVE_INFINITY;
      await repositories.regions.heartbeat({ id: 'node-2', region: 'fra1', atMs: 3000 });
      expect(await beatOf('node-2')).toBeGreaterThan(before);
      await repositories.regions.removeNodesSeenBefore(2000);
      await repositories.regions.removeNode('node-3');
      expect(await repositories.regions.nodes()).toMatchObject([{ id: 'node-2', seenAtMs: 3000 }]);
    });
  });
}
