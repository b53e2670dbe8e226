import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { defaultPresets, findPrograms, type Preset, parseIdentified } from '@mds/transcode';
import { defaultLimits, identifyFile, planRenditions, renderAv } from '@mds/transcode/in-process';
import { defineBenchmark, type Ratio } from '../benchmark.ts';
import { film, filmFrameRate } from '../pictures/film.ts';
import { type RungScore, scoreRung } from '../quality/rungs.ts';
import { alternate } from '../rounds.ts';
import { type HandLadder, ladderAtOnce, rungByRung } from '../sides/hand-written-ffmpeg.ts';
import { ratioOf, summarize } from '../statistics.ts';

const isHls = (preset: Preset): preset is Preset & { type: 'hls' } => preset.type === 'hls';

export default defineBenchmark({
  name: 'video',
  what: '60 s of 1080p30 with audio to the default ladder: HLS with CMAF segments at four sizes',
  against: 'hand-written ffmpeg with equal settings: one command for the whole ladder, and one for each rung',
  goals: {
    'at once': { says: 'our time, relative to one command', atMost: 1.05 },
    'rung by rung': { says: 'our time, relative to one command a rung', atMost: 0.75 },
    bytes: { says: 'bytes of the worst rung, ours relative to one command', atMost: 1.03 },
    SSIM: { says: 'SSIM of brightness of the worst rung, ours relative to one command', atLeast: 0.999 },
    colour: { says: 'SSIM of colour of the worst rung, ours relative to one command', atLeast: 0.999 },
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
    /** Keeps the last output of each side, to be scored afterwards. */
    const into = async (side: string, work: (outDir: string) => Promise<number>) => {
      const outDir = join(scratch, side);
      await rm(outDir, { recursive: true, force: true });
      await mkdir(outDir);
      return work(outDir);
    };
    const ourFolder = { path: '' };
    try {
      const times = await alternate(
        {
          ours: () =>
            into('ours', async (outDir) => {
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
                else ourFolder.path = dirname(rendition.path);
              }
              return ms;
            }),
          'one command': () => into('one command', (outDir) => ladderAtOnce(programs.ffmpeg, ladder, outDir)),
          'a command a rung': () => into('a command a rung', (outDir) => rungByRung(programs.ffmpeg, ladder, outDir)),
        },
        rounds,
        progress,
      );
      const scores = { ours: [], 'one command': [], 'a command a rung': [] } as Record<keyof typeof times, RungScore[]>;
      for (const rung of rungs) {
        for (const side of Object.keys(scores) as (keyof typeof times)[]) {
          progress(`scoring ${rung.name} of ${side}`);
          const folder = join(side === 'ours' ? ourFolder.path : join(scratch, side), rung.name);
          const playlist = side === 'ours' ? `${folder}.m3u8` : join(folder, 'index.m3u8');
          scores[side].push(await scoreRung(programs.ffmpeg, source, { folder, playlist }, rung));
        }
      }
      const worst = (figure: keyof RungScore): Ratio => {
        const ratios = scores.ours.map((own, i) => own[figure] / (scores['one command'][i]?.[figure] ?? Number.NaN));
        const [low, high] = [Math.min(...ratios), Math.max(...ratios)];
        return { value: figure === 'bytes' ? high : low, low, high };
      };
      return {
        ratios: {
          'at once': ratioOf(times.ours, times['one command']),
          'rung by rung': ratioOf(times.ours, times['a command a rung']),
          bytes: worst('bytes'),
          SSIM: worst('ssim'),
          colour: worst('colourSsim'),
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
          {
            title: 'size and similarity, by rung',
            head: ['rung', 'side', 'KiB', 'SSIM', 'SSIM of colour'],
            rows: rungs.flatMap(({ name }, i) =>
              Object.entries(scores).map(([side, list]) => {
                const { bytes = 0, ssim = 0, colourSsim = 0 } = list[i] ?? {};
                return [name, side, (bytes / 1024).toFixed(0), ssim.toFixed(4), colourSsim.toFixed(4)];
              }),
            ),
          },
        ],
        problems,
        notes: [
          `ffmpeg ${programs.ffmpeg.version} (${programs.ffmpeg.origin}), x264 ${preset.speed}, CRF ${preset.crf}, rungs ${rungs.map(({ name }) => name).join(', ')}. SSIM is measured by ffmpeg's filter, against the source scaled with Lanczos.`,
          'Our time includes identifying the file, cutting the segments, and reading sizes, durations and keyframes of every segment back.',
        ],
      };
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  },
});
