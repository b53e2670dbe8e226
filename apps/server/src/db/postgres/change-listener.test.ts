import { Client, type QueryConfig } from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { silentProxy } from '../../../test/support/silent-proxy.ts';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import { describeOverPostgres, isTrusted, newMedia } from './postgres.fixture.ts';

describeOverPostgres('a node that listens to PostgreSQL', (fixture) => {
  it('recovers from a dead connection within seconds, and fails all pending calls', async () => {
    await fixture.prepare();
    const proxy = await silentProxy(fixture.url);
    const cutOff = await fixture.open(proxy.url);
    try {
      await cutOff.media.version();
      proxy.goSilent();
      // This is the number of deliveries in 1.5 seconds that are not in memory.
      const asked = Array.from({ length: 300 }, () => cutOff.media.version());
      const over = Promise.allSettled(asked);
      await expect.poll(() => isTrusted(cutOff), { timeout: 10_000, interval: 20 }).toBe(false);
      const began = performance.now();
      expect((await over).every(({ status }) => status === 'rejected')).toBe(true);
      await expect.poll(() => isTrusted(cutOff), { timeout: 20_000, interval: 20 }).toBe(true);
      expect(performance.now() - began).toBeLessThan(15_000);

      const other = await fixture.open();
      const before = cutOff.versions.stamp('others');
      await other.media.accept(newMedia(1), EXISTING);
      await expect.poll(() => cutOff.versions.stamp('others'), { timeout: 5_000, interval: 5 }).not.toBe(before);
    } finally {
      await proxy.stop();
    }
  });

  it('reads the version once for all callers that ask at the same time', async () => {
    const node = await fixture.open();
    const query = vi.spyOn(Client.prototype, 'query');
    onTestFinished(() => query.mockRestore());
    await Promise.all(Array.from({ length: 200 }, () => node.media.version()));
    const asked = query.mock.calls.filter(([config]: unknown[]) => (config as QueryConfig).name === 'version');
    expect(asked.length).toBeLessThanOrEqual(2);
    expect(asked.length).toBeGreaterThan(0);
  });
});
