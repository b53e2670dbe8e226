import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineBenchmark, type RunContext, type Table } from '../benchmark.ts';
import { imagePresets } from '../pictures/image-presets.ts';
import { twelveMegapixelSize, twelveMegapixels } from '../pictures/twelve-megapixels.ts';
import { createScorer, problemsOf } from '../quality/score.ts';
import { alternate } from '../rounds.ts';
import { openRenderer, type Renderer } from '../sides/open-renderer.ts';
import { median, ratioOf, summarize } from '../statistics.ts';

/** Equal settings must give an equal picture. Only sizes that are derived from one another may differ this much. */
const ssimTolerance = 0.005;

export default defineBenchmark({
  name: 'image',
  what: 'a 12 MP JPEG to all default image renditions, one image and many in a row',
  against: 'one sharp pipeline per output with equal settings: in a loop, and all at once',
  goals: {
    'one, to loop': { says: 'one image: our time, relative to a loop', atMost: 0.65 },
    'one, to all at once': { says: 'one image: our time, relative to all at once', atMost: 0.95 },
    'row, to loop': { says: 'images in a row: our time, relative to a loop', atMost: 0.65 },
    'row, to all at once': { says: 'images in a row: our time, relative to all at once', atMost: 0.95 },
  },
  needs: [],
  async run(context) {
    context.progress('painting 12 megapixels (once)');
    const pictures = await twelveMegapixels();
    const scratch = await mkdtemp(join(tmpdir(), 'mds-bench-image-'));
    const loopThreads = await fasterThreads('loop', pictures, scratch, context);
    const allThreads = await fasterThreads('all', pictures, scratch, context);
    const sides = {
      ours: await openRenderer('./ours-in-process.ts'),
      'ours, isolated': await openRenderer('./ours-isolated.ts'),
      loop: await openSharp('loop', loopThreads),
      'all at once': await openSharp('all', allThreads),
    };
    type Name = keyof typeof sides;
    const names = Object.keys(sides) as Name[];
    try {
      for (const name of names) await mkdir(join(scratch, name), { recursive: true });
      const render = (name: Name, source: string) =>
        sides[name].render({ source, size: twelveMegapixelSize, outDir: join(scratch, name), presets: imagePresets });
      const each = (work: (name: Name) => Promise<number>) => ({
        ours: () => work('ours'),
        'ours, isolated': () => work('ours, isolated'),
        loop: () => work('loop'),
        'all at once': () => work('all at once'),
      });
      const first = pictures[0] ?? '';
      const one = await alternate(
        each((name) => render(name, first)),
        context.rounds,
        context.progress,
      );
      const problems = await compareOutputs(first, names, scratch);
      const count = context.quick ? 10 : 50;
      const row = await alternate(
        each(async (name) => {
          let ms = 0;
          for (let i = 0; i < count; i++) ms += await render(name, pictures[i % pictures.length] ?? '');
          return ms;
        }),
        context.rounds,
        (message) => context.progress(`${count} in a row: ${message}`),
      );
      return {
        ratios: {
          'one, to loop': ratioOf(one.ours, one.loop),
          'one, to all at once': ratioOf(one.ours, one['all at once']),
          'row, to loop': ratioOf(row.ours, row.loop),
          'row, to all at once': ratioOf(row.ours, row['all at once']),
        },
        tables: [timesTable('one image', one, 1), timesTable(`${count} images in a row, per image`, row, count)],
        problems,
        notes: [
          `Six outputs: ${imagePresets.map(({ name, extension }) => `${name}.${extension}`).join(', ')}.`,
          `sharp runs with the number of libvips threads that is faster here: ${loopThreads ?? 'its default'} in a loop, ${allThreads ?? 'its default'} all at once.`,
          'Our time includes identifying the file, a thumbhash and reading every output back. Goals are judged in one process, as sharp runs. The service runs it as "isolated".',
        ],
      };
    } finally {
      for (const name of names) await sides[name].stop();
      await rm(scratch, { recursive: true, force: true });
    }
  },
});

function openSharp(order: 'loop' | 'all', threads: number | null): Promise<Renderer> {
  return openRenderer('./sharp-pipelines.ts', ['--order', order, ...(threads ? ['--threads', String(threads)] : [])]);
}

/** The number of libvips threads that is faster for the peer: sharp's default, or all cores. The peer gets the better one. */
async function fasterThreads(
  order: 'loop' | 'all',
  [picture = '']: string[],
  outDir: string,
  { progress }: RunContext,
): Promise<number | null> {
  const cores = availableParallelism();
  const [own, all] = [await openSharp(order, null), await openSharp(order, cores)];
  const request = { source: picture, size: twelveMegapixelSize, outDir, presets: imagePresets };
  const times = await alternate({ own: () => own.render(request), all: () => all.render(request) }, 3, (message) =>
    progress(`threads for ${order}: ${message}`),
  );
  await own.stop();
  await all.stop();
  return median(times.own) <= median(times.all) ? null : cores;
}

async function compareOutputs(source: string, names: readonly string[], scratch: string): Promise<string[]> {
  const scorer = createScorer();
  const problems: string[] = [];
  for (const preset of imagePresets) {
    const scores = new Map<string, number>();
    for (const name of names) {
      const score = await scorer.score(source, preset, join(scratch, name));
      problems.push(...problemsOf(name, score, twelveMegapixelSize, preset));
      scores.set(name, score.ssim);
    }
    const theirs = scores.get('loop') ?? 1;
    for (const [name, ours] of scores) {
      if (ours < theirs - ssimTolerance) {
        problems.push(
          `${name}: ${preset.name}.${preset.extension} has SSIM ${ours.toFixed(4)}, the loop's ${theirs.toFixed(4)}`,
        );
      }
    }
  }
  return problems;
}

function timesTable(title: string, times: Record<string, number[]>, count: number): Table {
  return {
    title,
    head: ['side', 'median ms', 'lowest', 'highest'],
    rows: Object.entries(times).map(([name, values]) => {
      const { median: middle, low, high } = summarize(values.map((value) => value / count));
      return [name, middle.toFixed(0), low.toFixed(0), high.toFixed(0)];
    }),
  };
}
