import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineBenchmark } from '../benchmark.ts';
import { imagePresets } from '../pictures/image-presets.ts';
import { twelveMegapixelSize, twelveMegapixels } from '../pictures/twelve-megapixels.ts';
import { unlikeAnyOther } from '../pictures/unlike-any-other.ts';
import { alternate } from '../rounds.ts';
import { builtService, startService } from '../service/start-service.ts';
import { pollMs, uploadUntilReady } from '../service/upload-until-ready.ts';
import { openRenderer } from '../sides/open-renderer.ts';
import { ratioOf, summarize } from '../statistics.ts';

const timeoutMs = 60_000;

export default defineBenchmark({
  name: 'ready',
  what: 'time from the last byte of a 12 MP JPEG, uploaded over HTTP, to `ready`',
  against: 'the `image` figure: the same picture rendered by the engine alone, in one process',
  regressionBound: true,
  goals: { ready: { says: 'last byte to ready, relative to rendering alone', atMost: 1.25 } },
  needs: [builtService],
  async run({ rounds, progress }) {
    progress('painting 12 megapixels (once)');
    const [source = ''] = await twelveMegapixels();
    const picture = await readFile(source);
    const scratch = await mkdtemp(join(tmpdir(), 'mds-bench-ready-'));
    const outDir = join(scratch, 'out');
    await mkdir(outDir);
    const service = await startService(join(scratch, 'data'));
    const engine = await openRenderer('./ours-in-process.ts');
    const problems: string[] = [];
    try {
      const token = await service.token();
      const upload = async () => {
        const bytes = unlikeAnyOther(picture);
        const made = await uploadUntilReady(service, token, {
          ...{ filename: 'bench.jpg', contentType: 'image/jpeg', bytes, timeoutMs },
        });
        if (made.renditions !== imagePresets.length)
          problems.push(`${made.id} is ready with ${made.renditions} renditions`);
        return made.ms;
      };
      const times = await alternate(
        {
          ready: upload,
          rendering: () => engine.render({ source, size: twelveMegapixelSize, outDir, presets: imagePresets }),
        },
        rounds,
        progress,
      );
      return {
        ratios: { ready: ratioOf(times.ready, times.rendering) },
        tables: [
          {
            title: 'milliseconds',
            head: ['what', 'median ms', 'lowest', 'highest'],
            rows: Object.entries(times).map(([name, values]) => {
              const { median, low, high } = summarize(values);
              return [name, median.toFixed(0), low.toFixed(0), high.toFixed(0)];
            }),
          },
        ],
        problems,
        notes: [
          `The benchmark polls the state every ${pollMs} ms, which adds up to ${pollMs} ms.`,
          'Every upload has another JPEG comment: the same picture, but different bytes, so that the service processes it again.',
        ],
      };
    } finally {
      await engine.stop();
      await service.stop();
      await rm(scratch, { recursive: true, force: true });
    }
  },
});
