import { expect, it } from 'vitest';
import { AppError } from '../../base/app-error.ts';
import { EXISTING } from '../conformance/repositories.fixture.ts';
import { NoAnswerError } from '../no-answer-error.ts';
import { describeOverPostgres, isTrusted, newMedia } from './postgres.fixture.ts';

/** The outcome of a call, as its caller sees it. */
const outcomeOf = async (call: Promise<unknown>): Promise<string> => {
  try {
    await call;
    return 'done';
  } catch (error) {
    return error instanceof AppError ? `${error.code} ${error.headers['Retry-After']}` : String(error);
  }
};

describeOverPostgres('a PostgreSQL server that fails', (fixture) => {
  const { open, connect } = fixture;

  it('loses no acknowledged write in a crash, and calls recover after the restart', async () => {
    const repositories = await open();
    const { media, jobs, versions, projects } = repositories;
    const writers = Array.from({ length: 30 }, async (_, n) => {
      const outcomes: string[] = [];
      for (let round = 0; !outcomes.includes('unavailable 5'); round++) {
        const mediaObject = newMedia(n * 10_000 + round);
        outcomes.push(await outcomeOf(media.accept(mediaObject, EXISTING)));
      }
      return outcomes;
    });
    await expect.poll(() => jobs.counts().then(({ queued }) => queued)).toBeGreaterThan(30);
    await fixture.server.kill9();
    const outcomes = await Promise.all(writers);
    expect(new Set(outcomes.flat())).toEqual(new Set(['done', 'unavailable 5']));

    for (const call of [
      media.find('med_1'),
      versions.read(),
      projects.byHost('a'),
      jobs.claim('w'),
      repositories.probe(),
    ]) {
      expect(await outcomeOf(call)).toBe('unavailable 5');
    }
    expect(isTrusted(repositories)).toBe(false);

    await fixture.server.restart();
    await expect.poll(() => outcomeOf(repositories.probe()), { timeout: 20_000 }).toBe('done');
    for (const [n, ended] of outcomes.entries()) {
      for (const [round, outcome] of ended.entries()) {
        if (outcome !== 'done') continue;
        expect(await media.find(newMedia(n * 10_000 + round).id)).not.toBeNull();
      }
    }
    expect(await outcomeOf(media.accept(newMedia(999_999), EXISTING))).toBe('done');
    await expect.poll(() => isTrusted(repositories), { timeout: 10_000 }).toBe(true);
  });

  it('fails writes with insufficient_storage if its disk is full', async () => {
    const { media } = await open();
    const stranger = await connect();
    await stranger.query(`
      CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'could not extend file'; END $$;
      CREATE TRIGGER full_disk BEFORE INSERT ON media FOR EACH ROW EXECUTE FUNCTION full_disk()`);
    expect(await outcomeOf(media.accept(newMedia(1), EXISTING))).toMatch(/^insufficient_storage/);
  });

  it('rejects writes on a standby until there is a new primary', async () => {
    const { pathname } = new URL(fixture.url);
    const { media, probe } = await open();
    const stranger = await connect();
    await stranger.query(`ALTER DATABASE ${pathname.slice(1)} SET default_transaction_read_only = on`);
    await stranger.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mds'");
    await expect.poll(() => outcomeOf(probe())).toBe('unavailable 5');
    await expect.poll(() => outcomeOf(media.accept(newMedia(1), EXISTING))).toBe('unavailable 5');
    expect(await outcomeOf(media.find('med_1'))).toBe('done');
    await stranger.query(`ALTER DATABASE ${pathname.slice(1)} RESET default_transaction_read_only`);
    await stranger.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mds'");
    await expect.poll(() => outcomeOf(media.accept(newMedia(1), EXISTING))).toBe('done');
  });

  it('reports a lost connection during a commit as unknown, not as a failure', async () => {
    const { media } = await open();
    const stranger = await connect();
    const waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()";
    await stranger.query("ALTER SYSTEM SET synchronous_standby_names = 'away'");
    await stranger.query('SELECT pg_reload_conf()');
    try {
      await expect
        .poll(async () => (await stranger.query('SHOW synchronous_standby_names')).rows)
        .toEqual([{ synchronous_standby_names: 'away' }]);
      const failure = media.accept(newMedia(1), EXISTING).catch((error: unknown) => error);
      await expect.poll(async () => (await stranger.query(waiting)).rowCount).toBe(1);
      await stranger.query(`SELECT pg_terminate_backend(pid) FROM (${waiting}) AS held`);
      expect(await failure).toBeInstanceOf(NoAnswerError);
      await expect
        .poll(async () => (await media.page({ projectId: 'default', limit: 9, before: null })).length)
        .toBe(1);
    } finally {
      await stranger.query('ALTER SYSTEM RESET synchronous_standby_names');
      await stranger.query('SELECT pg_reload_conf()');
    }
  });

  it('fails a probe within seconds if it does not answer, while calls wait', async () => {
    const { probe, media } = await open();
    const stranger = await connect();
    await stranger.query('BEGIN; LOCK TABLE versions');
    const began = performance.now();
    expect(await outcomeOf(probe())).toBe('unavailable 5');
    expect(performance.now() - began).toBeLessThan(5_000);
    const accepted = media.accept(newMedia(1), EXISTING);
    await stranger.query('COMMIT');
    expect(await outcomeOf(accepted)).toBe('done');
  });

  it('passes on the error of our own mistakes without the values of the query', async () => {
    const { media } = await open();
    const twice = newMedia(1, { filename: 'a-secret.png' });
    await media.accept(twice, EXISTING);
    const error = await media.accept({ ...twice, sha256: 'other' }, EXISTING).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(AppError);
    expect(`${(error as Error).stack}`).not.toContain('a-secret.png');
  });
});
