import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultPresets, findPrograms, parseIdentified } from '@mds/transcode';
import { defaultLimits, identifyFile, planRenditions, renderAv } from '@mds/transcode/in-process';
import { defineBenchmark } from '../benchmark.ts';
import { film } from '../pictures/film.ts';
import { alternate } from '../rounds.ts';
import { builtService, startService } from '../service/start-service.ts';
import { pollMs, uploadUntilReady } from '../service/upload-until-ready.ts';
import { ratioOf, summarize } from '../statistics.ts';

const timeoutMs = 300_000;

export default defineBenchmark({
  name: 'ready-video',
  what: 'time from the last byte of a 1080p30 film with audio, uploaded over HTTP, to `ready`: ladder, MP4, poster, storyboard and preview',
  against: 'the same file identified and rendered by the engine alone, in one process',
  regressionBound: true,
  goals: { ready: { says: 'last byte to ready, relative to rendering alone', atMost: 1.25 } },
  needs: [builtService],
  async run({ rounds, quick, progress }) {
    const programs = await findPrograms({});
    const seconds = quick ? 6 : 12;
    progress(`making a film of ${seconds} s (once)`);
    const source = await film(programs.ffmpeg, seconds);
    const bytes = await readFile(source);
    const scratch = await mkdtemp(join(tmpdir(), 'mds-bench-ready-video-'));
    const service = await startService(join(scratch, 'data'));
    const problems: string[] = [];
    try {
      const token = await service.token();
      let rendered = 0;
      const render = async () => {
        const outDir = await mkdtemp(join(scratch, 'out-'));
        const began = performance.now();
        const facts = parseIdentified(await identifyFile(source, defaultLimits, programs));
        const plan = planRenditions(facts, defaultPresets);
        const { renditions } = await renderAv(source, facts, plan, outDir, { limits: defaultLimits, programs });
        const ms = performance.now() - began;
        rendered = renditions.filter(({ state }) => state === 'ready').length;
        if (rendered !== renditions.length) problems.push(`${renditions.length - rendered} renditions failed`);
        await rm(outDir, { recursive: true });
        return ms;
      };
      const upload = async () => {
        const made = await uploadUntilReady(service, token, {
          ...{ filename: 'bench.mp4', contentType: 'video/mp4', bytes: unlikeAnyOther(bytes), timeoutMs },
        });
        if (made.renditions !== rendered) problems.push(`${made.id} has ${made.renditions} renditions for ${rendered}`);
        return made.ms;
      };
      const times = await alternate({ rendering: render, ready: upload }, rounds, progress);
      return {
        ratios: { ready: ratioOf(times.ready, times.rendering) },
        tables: [
          {
            title: `seconds for ${seconds} s of film`,
            head: ['what', 'median s', 'lowest', 'highest'],
            rows: Object.entries(times).map(([name, values]) => {
              const { median, low, high } = summarize(values.map((ms) => ms / 1_000));
              return [name, median.toFixed(2), low.toFixed(2), high.toFixed(2)];
            }),
          },
        ],
        problems,
        notes: [
          `${rendered} renditions each; ffmpeg ${programs.ffmpeg.version} (${programs.ffmpeg.origin}). The benchmark polls the state every ${pollMs} ms.`,
          'Every upload has another free box at its end: the same film, but different bytes, so that the service processes it again.',
        ],
      };
    } finally {
      await service.stop();
      await rm(scratch, { recursive: true, force: true });
    }
  },
});

/** Adds a box of type `free` (ISO/IEC 14496-12, 8.1.2) to the end of the MP4: other bytes, the same film. */
function unlikeAnyOther(mp4: Buffer): Buffer {
  const filling = randomBytes(16);
  const head = Buffer.from([0, 0, 0, 8 + filling.length, 0x66, 0x72, 0x65, 0x65]);
  return Buffer.concat([mp4, head, filling]);
}
