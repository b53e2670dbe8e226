import { setTimeout as delay } from 'node:timers/promises';
import { FormatList } from '@mds/contract';
import { createEngine, formats, type ProvenFormat } from '@mds/transcode';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Repositories } from '../db/repositories.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createFormatCatalogue, type FormatCatalogue } from './format-catalogue.ts';

const logger = pino({ level: 'silent' });
const all: ProvenFormat[] = formats.map(({ id }) => ({ id, ok: true }));
const without = (id: string): ProvenFormat[] =>
  all.map((proof) => (proof.id === id ? { id, ok: false, reason: 'no decoder' } : proof));

let repositories: Repositories;
const running: FormatCatalogue[] = [];
beforeEach(() => {
  repositories = openSqliteRepositories(':memory:');
});
afterEach(async () => {
  for (const catalogue of running.splice(0)) await catalogue.stop();
  await repositories.close();
});

async function start(engine: {
  versions?: Record<string, string>;
  proveFormats(): Promise<ProvenFormat[]>;
}): Promise<FormatCatalogue> {
  const catalogue = createFormatCatalogue({
    engine: { versions: async () => engine.versions ?? { sharp: '1' }, proveFormats: engine.proveFormats },
    proofs: repositories.formatProofs,
    logger,
    waitMs: 100,
  });
  running.push(catalogue);
  await catalogue.start();
  return catalogue;
}

const ids = async (catalogue: FormatCatalogue) => (await catalogue.accepted()).map(({ id }) => id);

describe('the accepted formats', () => {
  it('are those that the real engine decodes, in the form of the contract', async () => {
    const engine = createEngine();
    const catalogue = createFormatCatalogue({ engine, proofs: repositories.formatProofs, logger });
    running.push(catalogue);
    await catalogue.start();
    const data = await catalogue.accepted();
    FormatList.parse({ object: 'list', data });
    expect(data.map(({ id }) => id)).toEqual(formats.map(({ id }) => id));
    expect(catalogue.state()).toBe('operational');
    await engine.stop();
  }, 60_000);

  it('exclude a format that cannot be decoded here, because ingest would refuse it', async () => {
    const catalogue = await start({ proveFormats: async () => without('heic') });
    expect(await ids(catalogue)).toEqual(formats.map(({ id }) => id).filter((id) => id !== 'heic'));
    expect(catalogue.state()).toBe('degraded_performance');
  });

  it('lack video and audio from the start if there is no ffmpeg', async () => {
    const proveFormats = () => new Promise<ProvenFormat[]>(() => undefined);
    const lacking = await start({ versions: { sharp: '1', ffmpeg: 'none' }, proveFormats });
    expect(lacking.state()).toBe('degraded_performance');
    const having = await start({ versions: { sharp: '1', ffmpeg: '7.0' }, proveFormats });
    expect(having.state()).toBe('operational');
  });

  it('are awaited while a new engine is proved, without delaying the start', async () => {
    let finish: (proofs: ProvenFormat[]) => void = () => undefined;
    const proving = new Promise<ProvenFormat[]>((resolve) => {
      finish = resolve;
    });
    const catalogue = await start({ proveFormats: () => proving });
    const waiting = ids(catalogue);
    finish(all);
    expect(await waiting).toHaveLength(formats.length);
  });

  it('give 503 with Retry-After if the proofs never end', async () => {
    const catalogue = await start({ proveFormats: () => new Promise(() => undefined) });
    await expect(catalogue.accepted()).rejects.toMatchObject({ code: 'unavailable', headers: { 'Retry-After': '5' } });
  });

  it('are proved once for an engine, and again for another version', async () => {
    let proofs = 0;
    const proveFormats = async () => {
      proofs += 1;
      return all;
    };
    await ids(await start({ proveFormats }));
    await delay(10);
    await ids(await start({ proveFormats }));
    expect(proofs).toBe(1);
    await ids(await start({ versions: { sharp: '2' }, proveFormats }));
    expect(proofs).toBe(2);
  });

  it('are proved again at the next start after a failure for lack of memory', async () => {
    await ids(await start({ proveFormats: async () => without('avif') }));
    await delay(10);
    const next = await start({ proveFormats: async () => all });
    await delay(10);
    expect(await ids(next)).toContain('avif');
    expect(next.state()).toBe('operational');
  });

  it('are logged in one line if ffmpeg is missing, with the settings to change', async () => {
    const lines: Array<Record<string, unknown>> = [];
    const spy = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
    const missing = createEngine({ programs: { ffmpeg: '/nowhere/ffmpeg', ffprobe: '/nowhere/ffprobe' } });
    const parts = { engine: missing, proofs: repositories.formatProofs, logger: spy };
    // The second start has the proofs of the first, and repeats them.
    for (const start of [1, 2]) {
      lines.splice(0);
      const catalogue = createFormatCatalogue(parts);
      running.push(catalogue);
      await catalogue.start();
      const accepted = (await catalogue.accepted()).map(({ kind }) => kind);
      expect(new Set(accepted)).toEqual(new Set(['image']));
      if (start === 2) await expect.poll(() => missing.stats.render.tasks).toBeGreaterThan(accepted.length);
      await expect.poll(() => missing.stats.render.busy).toBe(0);
      await delay(50);
      expect(lines).toHaveLength(1);
      expect(lines[0]).toMatchObject({
        formats: formats.filter(({ kind }) => kind !== 'image').map(({ id }) => id),
        reason: expect.stringMatching(/FFMPEG_PATH names .* FFPROBE_PATH names /),
      });
    }
    await missing.stop();
  }, 60_000);

  it('degrade the status if they could not be proved at all', async () => {
    const catalogue = await start({
      proveFormats: async () => {
        throw new Error('no process could be started');
      },
    });
    await delay(10);
    expect(catalogue.state()).toBe('degraded_performance');
  });
});
