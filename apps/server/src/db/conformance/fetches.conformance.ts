import { createHash } from 'node:crypto';
import { ulid } from 'ulid';
import { describe, expect, it } from 'vitest';
import type { FetchLease, FetchProgress, NewFetch } from '../fetch-repository.ts';
import { leaseSilenceConformance } from './lease-silence.conformance.ts';
import type { RepositoriesFixture } from './repositories.fixture.ts';

const MANY = { maxWaiting: 100 };
const SECRET_URL = 'https://example.org/a.png?signature=secret';
const unreachable = { code: 'source_unreachable', message: 'It does not answer.', retryable: true };
const progress = (changes: Partial<FetchProgress> = {}): FetchProgress => ({
  ...{ receivedBytes: 0, totalBytes: null, validator: null, spentMs: 0, fruitful: false },
  ...changes,
});

/** The queue of fetches and their records. */
export function fetchesConformance({ repositories, tick }: RepositoriesFixture): void {
  describe('fetches', () => {
    const newFetch = (changes: Partial<NewFetch> = {}): NewFetch => {
      const sourceUrl = changes.sourceUrl ?? SECRET_URL;
      return {
        id: `fch_${ulid(tick(1000)).toLowerCase()}`,
        projectId: 'default',
        // It is due at once, whatever the clock of the fixture shows.
        createdAtMs: Date.now() - 60_000,
        sourceUrl,
        filename: 'a.png',
        duplicate: 'existing',
        idempotencyKey: null,
        requestSha256: createHash('sha256').update(sourceUrl).digest('hex'),
        ...changes,
      };
    };
    const add = async (changes: Partial<NewFetch> = {}) => {
      const admission = await repositories.fetches.add(newFetch(changes), MANY);
      if (!('fetch' in admission)) throw new Error(`The fetch was not added: ${admission.outcome}`);
      return admission.fetch;
    };
    const claim = async (): Promise<FetchLease> => {
      const lease = await repositories.fetches.claim();
      if (lease === null) throw new Error('There is nothing to claim.');
      return lease;
    };

    it('are handed out in the order of arrival, once each', async () => {
      const first = await add();
      const second = await add();
      expect(first).toMatchObject({ status: 'queued', attempts: 0, receivedBytes: 0, totalBytes: null });
      const third = await add();
      const { fetch } = await claim();
      expect(fetch).toMatchObject({ id: first.id, status: 'fetching', attempts: 1, sourceUrl: SECRET_URL });
      // Two concurrent claims may be answered in either order.
      const leases = await Promise.all([claim(), claim()]);
      expect(new Set(leases.map((lease) => lease.fetch.id))).toEqual(new Set([second.id, third.id]));
      expect(await repositories.fetches.claim()).toBeNull();
    });

    leaseSilenceConformance({
      add,
      async claim() {
        const lease = await claim();
        return {
          beat: () => repositories.fetches.beat(lease, progress()),
          reclaim: () => repositories.fetches.reclaim(lease.token),
        };
      },
      held: () => repositories.fetches.held(),
      noteSilence: (...noted) => repositories.fetches.noteSilence(...noted),
    });

    it('continue after their holder died, and reject writes under the lost lease', async () => {
      const { id } = await add();
      const { fetches } = repositories;
      const lost = await claim();
      expect(
        await fetches.beat(lost, progress({ receivedBytes: 7, totalBytes: 9, validator: '"v"', spentMs: 5 })),
      ).toBe(true);
      expect(await fetches.held()).toEqual([{ token: lost.token, beat: 1, silentMs: 0 }]);
      expect(await fetches.reclaim(lost.token)).toBe(true);
      expect(await fetches.beat(lost, progress())).toBe(false);
      expect(await fetches.beginAccepting(lost)).toBe(false);
      expect(await fetches.giveBack(lost, { kind: 'released' })).toBe(false);
      expect(await fetches.end(lost, { status: 'failed', failure: unreachable })).toBe(false);
      expect(await fetches.held()).toEqual([]);
      const next = await claim();
      expect(next.fetch).toMatchObject({
        id,
        receivedBytes: 7,
        totalBytes: 9,
        validator: '"v"',
        attempts: 2,
        spentMs: 5,
      });
    });

    it('wait with a reason after a temporary failure, but not after a stop', async () => {
      const { id } = await add();
      const { fetches } = repositories;
      await fetches.giveBack(await claim(), { kind: 'released' });
      expect(await fetches.find(id)).toMatchObject({ status: 'queued', attempts: 0, failure: null });
      // Jitter makes the delay a fraction.
      await fetches.giveBack(await claim(), { kind: 'retry', delayMs: 60_000.25, failure: unreachable });
      expect(await fetches.find(id)).toMatchObject({ status: 'queued', attempts: 1, failure: unreachable });
      expect(await fetches.claim()).toBeNull();
    });

    it('count the attempts without progress', async () => {
      const { fetches } = repositories;
      await add();
      const again = { kind: 'retry', delayMs: 0, failure: unreachable } as const;
      await fetches.giveBack(await claim(), again);
      const second = await claim();
      expect(second.fetch).toMatchObject({ attempts: 2, fruitlessAttempts: 2 });
      await fetches.beat(second, progress({ receivedBytes: 1, fruitful: true }));
      await fetches.giveBack(second, again);
      const third = await claim();
      expect(third.fetch).toMatchObject({ attempts: 3, fruitlessAttempts: 1 });
      await fetches.giveBack(third, { ...again, fruitless: false });
      expect((await claim()).fetch).toMatchObject({ attempts: 4, fruitlessAttempts: 1 });
    });

    it('keep no secret of their URL after they ended', async () => {
      const { fetches } = repositories;
      const [done, failed, canceled] = [await add(), await add(), await add()];
      await fetches.end(await claim(), { status: 'done', mediaId: 'med_x', mediaCreated: true, receivedBytes: 9 });
      await fetches.end(await claim(), { status: 'failed', failure: unreachable });
      expect(await fetches.cancel(canceled.id)).toBe(true);
      for (const { id } of [done, failed, canceled]) {
        expect(await fetches.find(id)).toMatchObject({ sourceUrl: 'https://example.org/a.png', validator: null });
      }
      expect(await fetches.find(done.id)).toMatchObject({ status: 'done', mediaId: 'med_x', mediaCreated: true });
      expect(await fetches.unfinished()).toEqual([]);
    });

    it('can be canceled while they wait or run, but not while accepted or ended', async () => {
      const { fetches } = repositories;
      const waiting = await add();
      expect(await fetches.cancel(waiting.id)).toBe(true);
      expect(await fetches.cancel(waiting.id)).toBe(false);
      const fetching = await add();
      const lease = await claim();
      expect(await fetches.cancel(fetching.id)).toBe(true);
      expect(await fetches.beat(lease, progress())).toBe(false);
      const accepting = await add();
      const last = await claim();
      expect(await fetches.beginAccepting(last)).toBe(true);
      expect(await fetches.cancel(accepting.id)).toBe(false);
      await fetches.reclaim(last.token);
      expect(await fetches.cancel(accepting.id)).toBe(true);
    });

    it('return the same fetch for a repeated Idempotency-Key and the same request only', async () => {
      const { fetches } = repositories;
      const first = await add({ idempotencyKey: 'k' });
      expect(await fetches.add(newFetch({ idempotencyKey: 'k' }), { maxWaiting: 1 })).toMatchObject({
        outcome: 'repeated',
        fetch: { id: first.id },
      });
      const other = newFetch({ idempotencyKey: 'k', sourceUrl: 'https://example.org/b' });
      expect(await fetches.add(other, MANY)).toEqual({ outcome: 'other', fetchId: first.id });
    });

    it('are limited per project, so that one project cannot block the others', async () => {
      await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
      const { fetches } = repositories;
      const two = { maxWaiting: 2 };
      await fetches.add(newFetch(), two);
      await fetches.add(newFetch(), two);
      expect(await fetches.add(newFetch(), two)).toEqual({ outcome: 'full' });
      expect(await fetches.add(newFetch({ projectId: 'other' }), two)).toMatchObject({ outcome: 'created' });
      await fetches.end(await claim(), { status: 'failed', failure: unreachable });
      expect(await fetches.add(newFetch(), two)).toMatchObject({ outcome: 'created' });
    });

    it('are listed newest first, by project and status', async () => {
      await repositories.projects.put({ id: 'other', name: 'Other', hosts: [] });
      const ids = [(await add()).id, (await add()).id, (await add()).id];
      await add({ projectId: 'other' });
      await claim();
      const { fetches } = repositories;
      const query = { projectId: 'default', limit: 2, before: null };
      const page = await fetches.page(query);
      expect(page.map(({ id }) => id)).toEqual([ids[2], ids[1]]);
      expect((await fetches.page({ ...query, before: ids[1] ?? '' })).map(({ id }) => id)).toEqual([ids[0]]);
      expect((await fetches.page({ ...query, status: 'fetching' })).map(({ id }) => id)).toEqual([ids[0]]);
    });
  });
}
