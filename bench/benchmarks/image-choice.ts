import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineBenchmark, type Ratio, type Table } from '../benchmark.ts';
import { type GalleryPicture, gallery } from '../pictures/gallery.ts';
import { imagePresets } from '../pictures/image-presets.ts';
import { createScorer, problemsOf, type Score } from '../quality/score.ts';
import { alternate } from '../rounds.ts';
import { openRenderer } from '../sides/open-renderer.ts';
import { mean, ratioOf, summarize } from '../statistics.ts';

/** sharp puts transparent pictures on black for formats without transparency, and so does ipx. */
const sharpBackground = '#000000';

export default defineBenchmark({
  name: 'image-choice',
  what: '20 varied pictures to all default renditions, each side with its own default settings',
  against: 'ipx and plain sharp with the same sizes and formats; for each figure, the worst output counts',
  goals: {
    'SSIM, to ipx': { says: 'SSIM of brightness, ours relative to ipx', atLeast: 1 },
    'colour, to ipx': { says: 'SSIM of colour, ours relative to ipx', atLeast: 1 },
    'bytes, to ipx': { says: 'bytes, ours relative to ipx', atMost: 1.03 },
    'time, to ipx': { says: 'time, ours relative to ipx with all outputs at once', atMost: 0.6 },
    'SSIM, to sharp': { says: "SSIM of brightness, ours relative to sharp's defaults", atLeast: 1 },
    'colour, to sharp': { says: "SSIM of colour, ours relative to sharp's defaults", atLeast: 1 },
    'bytes, to sharp': { says: "bytes, ours relative to sharp's defaults", atMost: 1.03 },
    'time, to sharp': { says: "time, ours relative to sharp's defaults with all outputs at once", atMost: 0.6 },
  },
  needs: [],
  async run({ rounds, quick, progress }) {
    const all = await gallery(progress);
    const pictures = quick ? all.filter((_, index) => index % 3 === 0) : all;
    const scratch = await mkdtemp(join(tmpdir(), 'mds-bench-choice-'));
    const sides = {
      ours: await openRenderer('./ours-in-process.ts'),
      ipx: await openRenderer('./ipx-outputs.ts', ['--order', 'all']),
      sharp: await openRenderer('./sharp-pipelines.ts', ['--settings', 'default', '--order', 'all']),
      // At equal effort: a row for comparison, without a goal. The benchmark `image` judges that.
      'sharp, our settings': await openRenderer('./sharp-pipelines.ts', ['--settings', 'equal', '--order', 'all']),
    };
    type Name = keyof typeof sides;
    const names = Object.keys(sides) as Name[];
    const folderOf = (name: Name, { name: picture }: GalleryPicture) => join(scratch, name, picture);
    try {
      for (const name of names) {
        for (const picture of pictures) await mkdir(folderOf(name, picture), { recursive: true });
      }
      const renderAll = async (name: Name) => {
        let ms = 0;
        for (const picture of pictures) {
          const request = {
            source: picture.path,
            size: picture.size,
            outDir: folderOf(name, picture),
            presets: imagePresets,
          };
          ms += await sides[name].render(request);
        }
        return ms;
      };
      const times = await alternate(
        {
          ours: () => renderAll('ours'),
          ipx: () => renderAll('ipx'),
          sharp: () => renderAll('sharp'),
          'sharp, our settings': () => renderAll('sharp, our settings'),
        },
        rounds,
        progress,
      );
      const scores: Record<Name, Score[]> = { ours: [], ipx: [], sharp: [], 'sharp, our settings': [] };
      const problems: string[] = [];
      const scorer = createScorer();
      for (const picture of pictures) {
        progress(`scoring ${picture.name}`);
        for (const preset of imagePresets) {
          for (const name of names) {
            const background = name === 'ipx' || name === 'sharp' ? sharpBackground : '#ffffff';
            const score = await scorer.score(picture.path, preset, folderOf(name, picture), background);
            problems.push(...problemsOf(`${name}, ${picture.name}`, score, picture.size, preset));
            scores[name].push(score);
          }
        }
        scorer.forget();
      }
      return {
        ratios: {
          'SSIM, to ipx': worstOutput(scores.ours, scores.ipx, 'ssim'),
          'colour, to ipx': worstOutput(scores.ours, scores.ipx, 'colourSsim'),
          'bytes, to ipx': worstOutput(scores.ours, scores.ipx, 'bytes'),
          'time, to ipx': ratioOf(times.ours, times.ipx),
          'SSIM, to sharp': worstOutput(scores.ours, scores.sharp, 'ssim'),
          'colour, to sharp': worstOutput(scores.ours, scores.sharp, 'colourSsim'),
          'bytes, to sharp': worstOutput(scores.ours, scores.sharp, 'bytes'),
          'time, to sharp': ratioOf(times.ours, times.sharp),
        },
        tables: [timesTable(times, pictures.length), outputTable(scores), pictureTable(pictures, scores)],
        problems,
        notes: [
          'Bytes and SSIM are judged for each output (a preset in one format) over all pictures, and the worst ratio counts; "range of rounds" is the range over the outputs.',
          'SSIM (Wang et al. 2004) compares an output with the source, scaled with Lanczos and never encoded: once by brightness, once by the mean of the two colour differences.',
          '"sharp, our settings" has the formats, qualities and efforts of our presets, and shows the cost of equal effort.',
          'For JPEG, ipx and sharp put transparent pictures on black, ours on white. Each is judged on its own background.',
        ],
      };
    } finally {
      for (const name of names) await sides[name].stop();
      await rm(scratch, { recursive: true, force: true });
    }
  },
});

function totals(scores: readonly Score[]) {
  return {
    bytes: scores.reduce((sum, { bytes }) => sum + bytes, 0),
    ssim: mean(scores.map(({ ssim }) => ssim)),
    colourSsim: mean(scores.map(({ colourSsim }) => colourSsim)),
  };
}

const filesOf = (scores: readonly Score[]) => [...new Set(scores.map(({ file }) => file))];

/** Our figure divided by theirs for each output, over all pictures. The worst ratio counts, so that no output hides behind a mean. */
function worstOutput(ours: readonly Score[], theirs: readonly Score[], figure: 'bytes' | 'ssim' | 'colourSsim'): Ratio {
  const ratios = filesOf(ours).map((file) => {
    const ofFile = (scores: readonly Score[]) => totals(scores.filter((score) => score.file === file))[figure];
    return ofFile(ours) / ofFile(theirs);
  });
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)];
  return { value: figure === 'bytes' ? high : low, low, high };
}

function timesTable(times: Record<string, number[]>, count: number): Table {
  return {
    title: 'time per picture, all renditions',
    head: ['side', 'median ms', 'lowest', 'highest'],
    rows: Object.entries(times).map(([name, values]) => {
      const { median, low, high } = summarize(values.map((value) => value / count));
      return [name, median.toFixed(0), low.toFixed(0), high.toFixed(0)];
    }),
  };
}

/** Bytes and similarity of one group of scores, a cell for each. */
function cells(scores: readonly Score[]): string[] {
  const { bytes, ssim, colourSsim } = totals(scores);
  return [(bytes / 1024).toFixed(0), ssim.toFixed(4), colourSsim.toFixed(4)];
}

/** Bytes and similarity of every output over all pictures, a row for each side. */
function outputTable(scores: Record<string, Score[]>): Table {
  const rows = filesOf(Object.values(scores).flat()).flatMap((file) =>
    Object.entries(scores).map(([side, list]) => [file, side, ...cells(list.filter((score) => score.file === file))]),
  );
  return { title: 'size and similarity, by output', head: ['output', 'side', 'KiB', 'SSIM', 'SSIM of colour'], rows };
}

/** Bytes and similarity of every picture over all outputs, a row for each side: a mean over pictures would hide a bad one. */
function pictureTable(pictures: readonly GalleryPicture[], scores: Record<string, Score[]>): Table {
  const per = imagePresets.length;
  const rows = pictures.flatMap(({ name }, index) =>
    Object.entries(scores).map(([side, list]) => [name, side, ...cells(list.slice(index * per, (index + 1) * per))]),
  );
  return { title: 'size and similarity, by picture', head: ['picture', 'side', 'KiB', 'SSIM', 'SSIM of colour'], rows };
}
