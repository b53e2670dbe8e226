import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { REDIS_PASSWORD } from '../../../test/support/redis-server.ts';
import { createLogger } from '../../base/logger.ts';
import { ConfigError } from '../../base/settings.ts';
import { accept, bullQueues, claim, describeWithRedis, NOTHING_MADE, openRows } from './bull-queue.fixture.ts';
import { openBullQueue } from './open-bull-queue.ts';

const AT_ONCE_MS = 1_500;
/** Compares often. The service waits 10 s between two comparisons. */
const BY_ITSELF = { timing: { intervalMs: 100, suspectMs: 300 } };
/** The service uses 2 s. */
const ANSWER_MS = 400;

/** Runs it. @returns its duration in milliseconds, and its result */
async function timed<T>(run: () => Promise<T>): Promise<[number, T]> {
  const began = performance.now();
  const result = await run();
  return [performance.now() - began, result];
}

describeWithRedis('a node with a failing Redis', (servers) => {
  const { open, database, bullJobs, emptyBull, cutBull } = bullQueues(servers);
  const { redis } = servers;
  const here = () => ({ redis: { url: redis().url, answerMs: ANSWER_MS } });

  /** A log that the test reads. */
  function openLog() {
    const lines: { level: number; msg: string; reason?: string }[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    return { logger, warnings: () => lines.filter(({ level }) => level >= 40), lines };
  }

  it('accepts media, finishes jobs, and resumes waiting ones on an empty Redis', async () => {
    const url = await database();
    const { logger, lines, warnings } = openLog();
    const node = await open(url, { ...here(), ...BY_ITSELF, logger });
    const running = await accept(node);
    const lease = await claim(node);
    const before = await accept(node);
    await redis().kill9();
    const [tookMs, during] = await timed(() => accept(node));
    expect(tookMs).toBeLessThan(AT_ONCE_MS);
    for (let n = 0; n < 50; n++) {
      const [askedMs, nothing] = await timed(() => node.jobs.claim('worker-2'));
      expect(nothing).toBeNull();
      expect(askedMs).toBeLessThan(AT_ONCE_MS);
    }
    expect(await node.jobs.renew(lease)).toBe(true);
    expect(await node.media.publish(lease, NOTHING_MADE)).toBe(true);
    expect(warnings().map(({ msg }) => msg)).toEqual(['Redis does not answer; jobs are handed out when it does']);
    await redis().restart();
    const handedOut: string[] = [];
    for (let n = 0; n < 2; n++) {
      const taken = expect.poll(
        async () => {
          const got = await node.jobs.claim('worker-2');
          if (got !== null) handedOut.push(got.mediaId);
          return got;
        },
        { interval: 50, timeout: 20_000 },
      );
      await taken.not.toBeNull();
    }
    expect(handedOut.sort()).toEqual([before, during].sort());
    expect(await node.jobs.attempts(running)).toHaveLength(1);
    expect(lines.some(({ msg }) => msg === 'Redis answers again')).toBe(true);
  });

  it('delays calls by one answer timeout at most if Redis hangs', async () => {
    const url = await database();
    const { logger, warnings } = openLog();
    const node = await open(url, { ...here(), ...BY_ITSELF, logger });
    const waiting = await accept(node);
    redis().hang();
    try {
      const [claimMs, nothing] = await timed(() => node.jobs.claim('worker-1'));
      expect(nothing).toBeNull();
      expect(claimMs).toBeLessThan(ANSWER_MS + AT_ONCE_MS);
      const took: number[] = [];
      for (let n = 0; n < 5; n++) took.push((await timed(() => accept(node)))[0]);
      // No connection succeeds while Redis hangs, so none of these calls waits.
      expect(took.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(AT_ONCE_MS);
      expect(warnings()).toHaveLength(1);
    } finally {
      redis().goOn();
    }
    const claimed = new Set<string>();
    const all = expect.poll(
      async () => {
        const got = await node.jobs.claim('worker-1');
        if (got !== null) claimed.add(got.mediaId);
        return claimed.size;
      },
      { interval: 20, timeout: 40_000 },
    );
    await all.toBe(6);
    expect(claimed).toContain(waiting);
  });

  it('accepts media while the memory of Redis is full, and hands them out later', async () => {
    const url = await database();
    const node = await open(url, { ...here(), ...BY_ITSELF });
    await accept(node);
    await redis().command('CONFIG', 'SET', 'maxmemory', '1');
    const during = await accept(node);
    expect(await node.jobs.claim('worker-1')).toBeNull();
    await redis().command('CONFIG', 'SET', 'maxmemory', '0');
    await claim(node);
    await expect.poll(() => node.jobs.claim('worker-1'), { timeout: 20_000 }).toMatchObject({ mediaId: during });
  });

  it('starts with a warning, and accepts media, if Redis is down', async () => {
    const url = await database();
    await redis().kill9();
    const { logger, warnings } = openLog();
    const [startMs, node] = await timed(() => open(url, { ...here(), ...BY_ITSELF, logger }));
    const id = await accept(node);
    expect(startMs).toBeLessThan(10_000);
    expect(warnings()).toMatchObject([{ msg: 'Redis does not answer; jobs are handed out when it does' }]);
    expect(warnings()[0]?.reason).toContain('ECONNREFUSED');
    await redis().restart();
    await expect.poll(() => node.jobs.claim('worker-1'), { timeout: 20_000 }).toMatchObject({ mediaId: id });
    // Adding many jobs at once needs the scripts of BullMQ, which the new Redis does not have.
    const rows = await openRows(url);
    for (let n = 0; n < 3; n++) await accept(rows);
    await rows.close();
    await redis().command('SCRIPT', 'FLUSH');
    for (let n = 0; n < 3; n++) {
      await expect.poll(() => node.jobs.claim('worker-1'), { timeout: 20_000 }).not.toBeNull();
    }
  });

  it.each(['killed', 'standing still', 'away from the start'])('stops in time with a Redis that is %s', async (how) => {
    const url = await database();
    const rows = await openRows(url);
    if (how === 'away from the start') await redis().kill9();
    const node = await openBullQueue({ repositories: rows, url, ...here(), logger: createLogger('silent') });
    await accept(node);
    await node.jobs.claim('worker-1');
    if (how === 'killed') await redis().kill9();
    if (how === 'standing still') redis().hang();
    try {
      const [stopMs] = await timed(() => node.close());
      expect(stopMs).toBeLessThan(2 * AT_ONCE_MS);
    } finally {
      if (how === 'standing still') redis().goOn();
      else await redis().restart();
    }
  });

  it('loses no job and repeats none if Redis is emptied repeatedly', async () => {
    const url = await database();
    const nodes = [await open(url, { ...here(), ...BY_ITSELF }), await open(url, { ...here(), ...BY_ITSELF })];
    const [api] = nodes;
    if (api === undefined) throw new Error('There are two.');
    const ids: string[] = [];
    for (let n = 0; n < 40; n++) ids.push(await accept(api));
    let left = ids.length;
    let faults = 0;
    const work = nodes.map(async (node, index) => {
      while (left > 0) {
        const lease = await node.jobs.claim(`worker-${index}`);
        if (lease === null) {
          await sleep(10);
          continue;
        }
        // In turns, because a cut also hits the connection that empties Redis.
        if (index === 0) faults += 1;
        if (index === 0 && faults % 4 === 1) await emptyBull(url);
        if (index === 0 && faults % 4 === 3) await cutBull(url);
        if (await node.media.publish(lease, NOTHING_MADE)) left -= 1;
      }
    });
    await Promise.all(work);
    expect(faults).toBeGreaterThan(4);
    for (const id of ids) {
      expect((await api.jobs.attempts(id)).map(({ outcome }) => outcome)).toEqual(['ready']);
    }
    await expect.poll(() => bullJobs(url), { timeout: 20_000 }).toEqual([]);
  });

  it('hands out a job again if Redis evicted its lock or its place', async () => {
    const url = await database();
    const node = await open(url);
    const { logger } = openLog();
    const [one, other] = [await accept(node), await accept(node)];
    const [first] = await bullJobs(url);
    const [id = ''] = (await redis().command('KEYS', '*:prioritized')).split('\r\n').slice(-1);
    // The job is active in BullMQ, but its row is free again.
    const lease = await claim(node);
    await redis().command('DEL', id.replace('prioritized', `${first?.id}:lock`));
    await node.jobs.release(lease, { kind: 'released' });
    expect(lease.mediaId).toBe(one);
    await redis().command('DEL', id);
    const comparing = await open(url, { ...BY_ITSELF, logger });
    const taken = new Set<string | undefined>();
    await expect
      .poll(
        async () => {
          taken.add((await comparing.jobs.claim('worker-2'))?.mediaId);
          return taken.has(one) && taken.has(other);
        },
        { interval: 50, timeout: 20_000 },
      )
      .toBe(true);
  });

  it('logs a warning if Redis may evict jobs', async () => {
    await redis().command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    const { logger, warnings } = openLog();
    await open(await database(), { ...here(), logger });
    await redis().command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await expect.poll(warnings).toMatchObject([{ policy: 'allkeys-lru', msg: expect.stringContaining('noeviction') }]);
  });

  it('does not start with a password that Redis refuses, and does not show it', async () => {
    const rows = await openRows(await database());
    const start = async (change: (url: URL) => void) => {
      const wrong = new URL(redis().url);
      change(wrong);
      const { logger, lines } = openLog();
      const opening = openBullQueue({ repositories: rows, url: 'postgres://h/x', redis: { url: wrong.href }, logger });
      const error = await opening.catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ConfigError);
      expect((error as Error).message).toMatch(/MDS_QUEUE_URL: the Redis at redis:\/\/127.0.0.1:\d+\/\d+ refuses/);
      for (const secret of [REDIS_PASSWORD, 'not-the-password']) {
        expect(`${(error as Error).stack} ${JSON.stringify(lines)}`).not.toContain(secret);
      }
    };
    await start((url) => {
      url.password = 'not-the-password';
    });
    await start((url) => {
      url.password = '';
    });
    await start((url) => {
      url.pathname = '/99';
    });
    await rows.close();
  });

  it('does not start without the Redis client, and reports the fix', async () => {
    const rows = await openRows(await database());
    const load = () =>
      Promise.reject(Object.assign(new Error("Cannot find package 'ioredis'"), { code: 'ERR_MODULE_NOT_FOUND' }));
    const opening = openBullQueue({
      ...{ repositories: rows, url: 'postgres://127.0.0.1/x', logger: createLogger('silent') },
      redis: { url: redis().url, load },
    });
    await expect(opening).rejects.toThrow(ConfigError);
    await expect(opening).rejects.toThrow(/MDS_QUEUE_URL: .* ioredis, which is not installed\. Install it/);
    await rows.close();
  });
});
