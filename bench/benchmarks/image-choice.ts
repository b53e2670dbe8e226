import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineBenchmark, type Table } from '../benchmark.ts';
import { type GalleryPicture, gallery } from '../pictures/gallery.ts';
import { imagePresets } from '../pictures/image-presets.ts';
import { createScorer, problemsOf, type Score } from '../quality/score.ts';
import { alternate } from '../rounds.ts';
import { openRenderer } from '../sides/open-renderer.ts';
import { exactRatio, mean, ratioOf, summarize } from '../statistics.ts';

/** sharp lays transparent pictures over black where a format has no transparency, and ipx leaves it at that. */
const sharpBackground = '#000000';

export default defineBenchmark({
  name: 'image-choice',
  what: '20 varied pictures to all default renditions, each side with its own default settings',
  against: 'ipx and plain sharp, asked for the same sizes and formats',
  goals: {
    'SSIM, to ipx': { says: 'mean SSIM, ours to ipx', atLeast: 1 },
    'bytes, to ipx': { says: 'bytes, ours to ipx', atMost: 1.03 },
    'time, to ipx': { says: 'time, ours to ipx asked for all at once', atMost: 0.6 },
    'SSIM, to sharp': { says: "mean SSIM, ours to sharp's defaults", atLeast: 1 },
    'bytes, to sharp': { says: "bytes, ours to sharp's defaults", atMost: 1.03 },
    'time, to sharp': { says: "time, ours to sharp's defaults all at once", atMost: 0.6 },
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
        },
        rounds,
        progress,
      );
      const scores: Record<'ours' | 'ipx' | 'sharp', Score[]> = { ours: [], ipx: [], sharp: [] };
      const problems: string[] = [];
      const scorer = createScorer();
      for (const picture of pictures) {
        progress(`scoring ${picture.name}`);
        for (const preset of imagePresets) {
          for (const name of ['ours', 'ipx', 'sharp'] as const) {
            const background = name === 'ours' ? '#ffffff' : sharpBackground;
            const score = await scorer.score(picture.path, preset, folderOf(name, picture), background);
            problems.push(...problemsOf(`${name}, ${picture.name}`, score, picture.size, preset));
            scores[name].push(score);
          }
        }
        scorer.forget();
      }
      const [ours, ipx, plain] = [totals(scores.ours), totals(scores.ipx), totals(scores.sharp)];
      return {
        ratios: {
          'SSIM, to ipx': exactRatio(ours.ssim, ipx.ssim),
          'bytes, to ipx': exactRatio(ours.bytes, ipx.bytes),
          'time, to ipx': ratioOf(times.ours, times.ipx),
          'SSIM, to sharp': exactRatio(ours.ssim, plain.ssim),
          'bytes, to sharp': exactRatio(ours.bytes, plain.bytes),
          'time, to sharp': ratioOf(times.ours, times.sharp),
        },
        tables: [timesTable(times, pictures.length), ...formatTables(scores), pictureTable(pictures, scores)],
        problems,
        notes: [
          'SSIM is on brightness (Wang et al. 2004), against the source shrunk with Lanczos and never encoded. Brightness does not show what 4:2:0 takes from colour.',
          'ipx and sharp lay transparent pictures over black for JPEG, ours over white; each is judged by its own ground.',
        ],
      };
    } finally {
      for (const name of names) await sides[name].stop();
      await rm(scratch, { recursive: true, force: true });
    }
  },
});

function totals(scores: readonly Score[]) {
  return { bytes: scores.reduce((sum, { bytes }) => sum + bytes, 0), ssim: mean(scores.map((score) => score.ssim)) };
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

/** Bytes and SSIM of every output name over all pictures. */
function formatTables(scores: Record<string, Score[]>): Table[] {
  const files = [...new Set(Object.values(scores).flatMap((list) => list.map(({ file }) => file)))];
  const rows = files.map((file) => {
    const cells = Object.values(scores).flatMap((list) => {
      const { bytes, ssim } = totals(list.filter((score) => score.file === file));
      return [(bytes / 1024).toFixed(0), ssim.toFixed(4)];
    });
    return [file, ...cells];
  });
  const head = ['output', ...Object.keys(scores).flatMap((name) => [`${name} KiB`, `${name} SSIM`])];
  return [{ title: 'size and likeness, by output', head, rows }];
}

/** Where a mean hides a loser: bytes and SSIM of every picture. */
function pictureTable(pictures: readonly GalleryPicture[], scores: Record<string, Score[]>): Table {
  const per = imagePresets.length;
  const rows = pictures.map(({ name }, index) => {
    const cells = Object.values(scores).flatMap((list) => {
      const { bytes, ssim } = totals(list.slice(index * per, (index + 1) * per));
      return [(bytes / 1024).toFixed(0), ssim.toFixed(4)];
    });
    return [name, ...cells];
  });
  const head = ['picture', ...Object.keys(scores).flatMap((name) => [`${name} KiB`, `${name} SSIM`])];
  return { title: 'size and likeness, by picture', head, rows };
}
