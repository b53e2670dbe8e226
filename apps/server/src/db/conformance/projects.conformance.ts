import { describe, expect, it } from 'vitest';
import type { RepositoriesFixture } from './repositories.fixture.ts';

/** Projects, their hosts and their tokens. */
export function projectsConformance({ repositories }: RepositoriesFixture): void {
  describe('projects', () => {
    it('are found by host, and unknown hosts belong to `default`', async () => {
      await repositories.projects.put({ id: 'shop', name: 'Shop', hosts: ['Media.Shop.Example', 'm.shop.example'] });
      expect(await repositories.projects.byHost('media.shop.example')).toEqual({ id: 'shop', name: 'Shop' });
      expect((await repositories.projects.byHost('unknown.example')).id).toBe('default');
      await repositories.projects.put({ id: 'shop', name: 'New name', hosts: ['m.shop.example'] });
      expect((await repositories.projects.byHost('media.shop.example')).id).toBe('default');
      expect(await repositories.projects.byHost('m.shop.example')).toEqual({ id: 'shop', name: 'New name' });
      expect(await repositories.projects.find('shop')).toEqual({ id: 'shop', name: 'New name' });
      expect(await repositories.projects.find('none')).toBeNull();
    });

    it('have tokens that are found by hash, with their scope', async () => {
      const token = { name: 'first', projectId: 'default', scope: 'ingest' as const };
      await repositories.projects.putToken({ ...token, sha256: 'a'.repeat(64) });
      await repositories.projects.putToken({ ...token, scope: 'operate', sha256: 'a'.repeat(64) });
      expect(await repositories.projects.findToken('a'.repeat(64))).toEqual({ ...token, scope: 'operate' });
      expect(await repositories.projects.findToken('b'.repeat(64))).toBeNull();
    });
  });
}
