import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultPresets, findPrograms, type Preset, parseIdentified } from '@mds/transcode';
import { defaultLimits, identifyFile, planRenditions, renderAv } from '@mds/transcode/in-process';
import { defineBenchmark } from '../benchmark.ts';
import { film, filmFrameRate } from '../pictures/film.ts';
import { alternate } from '../rounds.ts';
import { type HandLadder, ladderAtOnce, rungByRung } from '../sides/hand-written-ffmpeg.ts';
import { ratioOf, summarize } from '../statistics.ts';

const isHls = (preset: Preset): preset is Preset & { type: 'hls' } => preset.type === 'hls';

export default defineBenchmark({
  name: 'video',
  what: '60 s of 1080p30 with sound to the default ladder: HLS with CMAF segments at four sizes',
  against: 'hand-written ffmpeg with equal settings: one command for the whole ladder, and one for each rung',
  goals: {
    'at once': { says: 'our time to that of one command', atMost: 1.05 },
    'rung by rung': { says: 'our time to that of one command a rung', atMost: 0.75 },
  },
  needs: [],
  async run({ rounds, quick, progress }) {
    const programs = await findPrograms({});
    const seconds = quick ? 12 : 60;
    progress(`making a film of ${seconds} s (once)`);
    const source = await film(programs.ffmpeg, seconds);
    const preset = defaultPresets.find(isHls);
    if (preset === undefined) throw new Error('There is no hls among the default presets.');
    const identified = parseIdentified(await identifyFile(source, defaultLimits, programs));
    const plan = planRenditions(identified, [preset]);
    const rungs = plan[0]?.video?.rungs ?? [];
    const ladder: HandLadder = {
      ...{ source, rungs, crf: preset.crf, speed: preset.speed, audioBitrate: preset.audio_bitrate },
      ...{ segmentSeconds: preset.segment_seconds, framesPerSegment: preset.segment_seconds * filmFrameRate },
    };
    const scratch = await mkdtemp(join(tmpdir(), 'mds-bench-video-'));
    const problems: string[] = [];
    const within = async (work: (outDir: string) => Promise<number>) => {
      const outDir = await mkdtemp(join(scratch, 'out-'));
      try {
        return await work(outDir);
      } finally {
        await rm(outDir, { recursive: true });
      }
    };
    let ourBytes = 0;
    try {
      const times = await alternate(
        {
          ours: () =>
            within(async (outDir) => {
              const began = performance.now();
              const facts = parseIdentified(await identifyFile(source, defaultLimits, programs));
              const planned = planRenditions(facts, [preset]);
              const { renditions } = await renderAv(source, facts, planned, outDir, {
                limits: defaultLimits,
                programs,
              });
              const ms = performance.now() - began;
              for (const rendition of renditions) {
                if (rendition.state === 'failed') problems.push(rendition.reason);
                else ourBytes = rendition.bytes;
              }
              return ms;
            }),
          'one command': () =>
            within(async (outDir) => {
              const ms = await ladderAtOnce(programs.ffmpeg, ladder, outDir);
              for (const { name } of rungs) await requireFile(join(outDir, name, 'index.m3u8'));
              return ms;
            }),
          'a command a rung': () => within((outDir) => rungByRung(programs.ffmpeg, ladder, outDir)),
        },
        rounds,
        progress,
      );
      return {
        ratios: {
          'at once': ratioOf(times.ours, times['one command']),
          'rung by rung': ratioOf(times.ours, times['a command a rung']),
        },
        tables: [
          {
            title: `seconds for ${seconds} s of film`,
            head: ['side', 'median s', 'lowest', 'highest'],
            rows: Object.entries(times).map(([name, values]) => {
              const { median, low, high } = summarize(values.map((ms) => ms / 1_000));
              return [name, median.toFixed(1), low.toFixed(1), high.toFixed(1)];
            }),
          },
        ],
        problems,
        notes: [
          `ffmpeg ${programs.ffmpeg.version} (${programs.ffmpeg.origin}), x264 ${preset.speed}, CRF ${preset.crf}, rungs ${rungs.map(({ name }) => name).join(', ')}; ours came to ${(ourBytes / 2 ** 20).toFixed(1)} MiB.`,
          'Our time includes identifying the file, cutting the segments, and reading everything back: sizes, durations and keyframes of every segment.',
        ],
      };
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  },
});

async function requireFile(path: string): Promise<void> {
  if ((await stat(path)).size === 0) throw new Error(`${path} is empty.`);
}
