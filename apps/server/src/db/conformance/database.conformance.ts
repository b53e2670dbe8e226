import { expect, it } from 'vitest';
import { failure, type RepositoriesFixture, ready, result, row } from './repositories.fixture.ts';

/** The versions and the probe of the whole database. */
export function databaseConformance({ repositories, accept, claim }: RepositoriesFixture): void {
  it('the media version changes only with writes that readers of media can see', async () => {
    const { media, jobs } = repositories;
    let last = await media.version();
    const expectChange = async (changes: boolean, what: string) => {
      const now = await media.version();
      expect(now !== last, what).toBe(changes);
      last = now;
    };
    const { id } = await accept('a');
    await expectChange(true, 'accept');
    await accept('a');
    await expectChange(false, 'accept of known bytes');
    let lease = await claim();
    await jobs.renew(lease);
    await expectChange(false, 'claim and renew');
    await media.start(lease, [row()]);
    await expectChange(true, 'start');
    await jobs.release(lease, { kind: 'released' });
    await expectChange(true, 'giving back');
    lease = await claim();
    await media.start(lease, [row()]);
    await expectChange(true, 'start');
    await jobs.reclaim(lease.token, { counted: true });
    await expectChange(true, 'reclaim');
    await media.publish(lease, result(ready()));
    await expectChange(false, 'publish without a lease');
    await media.fail(await claim(), failure);
    await expectChange(true, 'fail');
    await media.retry(id);
    await expectChange(true, 'retry');
    await media.publish(await claim(), result(ready()));
    await expectChange(true, 'publish');
    await media.delete(id);
    await expectChange(true, 'delete');
  });

  it('versions and stamps change at once with each own write that any reader can see', async () => {
    const { assets, projects, regions, versions } = repositories;
    const look = async () => {
      const { assets: assetsVersion, others } = await versions.read();
      return [versions.stamp('others'), others, versions.stamp('assets'), assetsVersion];
    };
    let before = await look();
    /** @param others whether the version without asset records changes too */
    const expectChange = async (changes: boolean, what: string, others = changes) => {
      const now = await look();
      const changed = now.map((value, n) => value !== before[n]);
      expect(changed, what).toEqual([others, others, changes, changes]);
      before = now;
    };
    await expectChange(false, 'nothing');
    await repositories.probe();
    await expectChange(false, 'a probe');
    await accept('a');
    await expectChange(true, 'a media object');
    await assets.record([{ region: 'fra1', path: '/a', bytes: 1, cacheStatus: 'HIT', atMs: 1 }], 10);
    await expectChange(true, 'a delivery', false);
    const region = { code: 'fra1', name: 'Frankfurt', zone: 'europe-central', country: 'DE', maintenance: false };
    await regions.put(region);
    await expectChange(true, 'a region');
    await regions.heartbeat({ id: 'a node', region: 'fra1', atMs: 1 });
    await expectChange(false, 'a heartbeat');
    await regions.delete('fra1');
    await expectChange(true, 'a region that goes');
    await projects.put({ id: 'other', name: 'Other', hosts: ['other.test'] });
    await expectChange(true, 'a project');
  });

  it('a probe of a healthy database succeeds', async () => {
    await repositories.probe();
    await repositories.probe();
  });
}
