import { describe, expect, it } from 'vitest';
import type { NewUpload } from '../upload-repository.ts';
import type { RepositoriesFixture } from './repositories.fixture.ts';

const NOW = 1_750_000_000_000;

/** Resumable uploads and their locks. */
export function uploadsConformance({ repositories }: RepositoriesFixture): void {
  describe('uploads', () => {
    const upload = (n: number, overrides: Partial<NewUpload> = {}): NewUpload => ({
      id: `upl_${String(n).padStart(26, '0')}`,
      projectId: 'default',
      tokenSha256: 'a'.repeat(64),
      createdAtMs: NOW,
      expiresAtMs: NOW + 1000,
      metadata: { filename: 'a.png', empty: null },
      filename: 'a.png',
      duplicate: 'existing',
      idempotencyKey: null,
      expectedSha256: null,
      length: 10,
      ...overrides,
    });
    const add = async (n: number, overrides: Partial<NewUpload> = {}) => {
      const made = upload(n, overrides);
      expect(await repositories.uploads.create(made, { maxOpen: 100 })).toBe(true);
      return made;
    };

    it('are stored as they were created, and open', async () => {
      const made = await add(1);
      const over = { state: 'open', mediaId: null, mediaCreated: null, failure: null };
      expect(await repositories.uploads.find(made.id)).toEqual({ ...made, ...over });
      expect(await repositories.uploads.find('upl_other')).toBeNull();
    });

    it('are limited per token, and a finished one makes room', async () => {
      const { uploads } = repositories;
      expect(await uploads.create(upload(1), { maxOpen: 2 })).toBe(true);
      expect(await uploads.create(upload(2), { maxOpen: 2 })).toBe(true);
      expect(await uploads.create(upload(3), { maxOpen: 2 })).toBe(false);
      expect(await uploads.find(upload(3).id)).toBeNull();
      expect(await uploads.create(upload(4, { tokenSha256: 'b'.repeat(64) }), { maxOpen: 2 })).toBe(true);
      expect(await uploads.finish(upload(1).id, { state: 'terminated' }, NOW)).toBe(true);
      expect(await uploads.create(upload(3), { maxOpen: 2 })).toBe(true);
      expect(await uploads.countOpen()).toBe(3);
    });

    it('get a length once, and only while they are open', async () => {
      const { uploads } = repositories;
      const { id } = await add(1, { length: null });
      expect(await uploads.declareLength(id, 7)).toBe(true);
      expect(await uploads.declareLength(id, 8)).toBe(false);
      expect(await uploads.find(id)).toMatchObject({ length: 7 });
      const { id: over } = await add(2, { length: null });
      await uploads.finish(over, { state: 'expired' }, NOW);
      expect(await uploads.declareLength(over, 7)).toBe(false);
    });

    it('end once, and keep their outcome until they are deleted', async () => {
      const { uploads } = repositories;
      const { id } = await add(1);
      const accepted = { state: 'accepted', mediaId: 'med_1', mediaCreated: true } as const;
      expect(await uploads.finish(id, accepted, NOW + 5)).toBe(true);
      const failure = { code: 'corrupt_media', message: 'It is damaged.' };
      expect(await uploads.finish(id, { state: 'rejected', failure }, NOW)).toBe(false);
      expect(await uploads.find(id)).toMatchObject({ ...accepted, failure: null, expiresAtMs: NOW + 5 });
      expect(await uploads.forget(NOW + 4)).toBe(0);
      expect(await uploads.forget(NOW + 5)).toBe(1);
      expect(await uploads.find(id)).toBeNull();
    });

    it('are listed in pages while they are open, by age if overdue, and never deleted', async () => {
      const { uploads } = repositories;
      for (const n of [1, 2, 3]) await add(n, { expiresAtMs: NOW - n });
      await uploads.finish(upload(2).id, { state: 'terminated' }, NOW + 1000);
      const first = await uploads.open({ after: null, limit: 1 });
      expect(first.map(({ id }) => id)).toEqual([upload(1).id]);
      const rest = await uploads.open({ after: upload(1).id, limit: 10 });
      expect(rest.map(({ id }) => id)).toEqual([upload(3).id]);
      expect((await uploads.overdue(NOW, 10)).map(({ id }) => id)).toEqual([upload(3).id, upload(1).id]);
      await uploads.postpone(upload(3).id, NOW + 1);
      expect((await uploads.overdue(NOW, 10)).map(({ id }) => id)).toEqual([upload(1).id]);
      expect(await uploads.forget(NOW)).toBe(0);
    });

    it('have one lock each, and a second caller learns the holder', async () => {
      const { uploads } = repositories;
      const { id } = await add(1);
      expect(await uploads.lock('upl_other', 'p1')).toBeUndefined();
      expect(await uploads.lock(id, 'p1')).toBeNull();
      expect(await uploads.lock(id, 'p2')).toEqual({ holder: 'p1', beat: 0 });
      await uploads.unlock(id, 'p2');
      expect(await uploads.lock(id, 'p2'), 'freed by somebody else').toEqual({ holder: 'p1', beat: 0 });
      await uploads.requestRelease(id);
      expect(await uploads.releaseRequested('p1')).toEqual([id]);
      expect(await uploads.releaseRequested('p2')).toEqual([]);
      await uploads.unlock(id, 'p1');
      expect(await uploads.lock(id, 'p2')).toBeNull();
      expect(await uploads.releaseRequested('p2'), 'the wish was for the holder before').toEqual([]);
    });

    it('pass the lock of a silent holder to one caller, and never that of a live one', async () => {
      const { uploads } = repositories;
      const { id } = await add(1);
      await uploads.lock(id, 'p1');
      const seen = { holder: 'p1', beat: 0 };
      expect(await uploads.beat('p1')).toEqual([id]);
      expect(await uploads.takeLock(id, seen, 'p2')).toBe(false);
      const later = { holder: 'p1', beat: 1 };
      expect(await uploads.takeLock(id, later, 'p2')).toBe(true);
      expect(await uploads.takeLock(id, later, 'p3')).toBe(false);
      expect(await uploads.beat('p1'), 'who lost it learns so').toEqual([]);
      await uploads.unlockAll();
      expect(await uploads.lock(id, 'p3')).toBeNull();
    });
  });
}
