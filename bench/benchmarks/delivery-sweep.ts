import { defineBenchmark, type Goal, type Ratio } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { notFromCache, wrongBytes } from '../service/delivered-bytes.ts';
import { loadDelivery, loadProgram, wrk } from '../service/delivery-load.ts';
import { connections } from '../service/load.ts';
import { builtService, startService } from '../service/start-service.ts';
import { dataDirFiller, dataDirWithObjects } from '../service/stored-objects.ts';
import { fasterNginx, fieldsToAdd, type NginxSide, nginx, startTunedNginx } from '../sides/nginx.ts';
import { median, ratioOf } from '../statistics.ts';

const KB = 1_000;
const MB = 1_000 * KB;

/** Several sizes lie just above one piece of 1 MiB, as most HLS segments do. */
const sizes = {
  ...{ '1 KB': KB, '2 KB': 2 * KB, '6 KB': 6 * KB, '10 KB': 10 * KB, '30 KB': 30 * KB, '60 KB': 60 * KB },
  ...{ '100 KB': 100 * KB, '190 KB': 190 * KB, '400 KB': 400 * KB, '750 KB': 750 * KB },
  ...{ '1 MB': MB, '1.05 MB': 1_050 * KB, '1.2 MB': 1_200 * KB, '1.5 MB': 1_500 * KB },
  ...{ '2 MB': 2 * MB, '5 MB': 5 * MB, '10 MB': 10 * MB, '20 MB': 20 * MB },
};
const RANGE = '1 MB of 100 MB';
type Case = keyof typeof sizes | typeof RANGE;
const cases = [...(Object.keys(sizes) as (keyof typeof sizes)[]), RANGE] as const;

const goalOf = (name: Case): Goal => ({
  says: `${name}: our requests a second to those of nginx`,
  atLeast: name !== RANGE && sizes[name] < 100 * KB ? 0.7 : 0.95,
});

/** A player that seeks: 64 places, none at the start of a piece. */
const jumps = Array.from({ length: 64 }, (_, index) => {
  const start = ((index * 37) % 64) * 1_500_000 + 12_345;
  return `bytes=${start}-${start + MB - 1}`;
});

export default defineBenchmark<Case>({
  name: 'delivery-sweep',
  what: `HITs of ${Object.keys(sizes).length} sizes from 1 KB to 20 MB, and of ranges of 1 MB of 100 MB, over ${connections} kept connections`,
  against:
    'nginx with one worker, sendfile and open files kept open; with tcp_nopush on and off, the better one counts',
  goals: Object.fromEntries(cases.map((name) => [name, goalOf(name)])) as Record<Case, Goal>,
  needs: [builtService, dataDirFiller, nginx, wrk],
  async run({ rounds, quick, progress }) {
    const film = { extension: 'mp4', contentType: 'video/mp4' };
    const all = { ...sizes, [RANGE]: 100 * MB };
    const media = Object.entries(all).map(([name, bytes]) => ({
      renditions: [{ name: 'clip', ...film, bytes, seed: name }],
    }));
    const stored = await dataDirWithObjects('sweep', media, progress);
    const problems: string[] = [];
    const measured = {} as Record<Case, Record<'ours' | NginxSide, number[]>>;
    const service = await startService(stored.dataDir);
    try {
      // The first answer for each object is a miss. The second one shows the header fields of a hit.
      for (const { path } of stored.renditions) await (await fetch(service.url + path)).arrayBuffer();
      const fields = fieldsToAdd(await fetch(service.url + stored.renditions[0]?.path));
      const peer = await startTunedNginx(stored, fields);
      try {
        const urls = { ours: service.url, ...peer.urls };
        for (const [index, name] of cases.entries()) {
          const rendition = stored.renditions[index];
          if (rendition === undefined) throw new Error(`There is no rendition of ${name}.`);
          const ranges = name === RANGE ? jumps : [];
          for (const [side, url] of Object.entries(urls)) {
            problems.push(...(await wrongBytes(side, url, stored, rendition, ranges[1])));
          }
          problems.push(...(await notFromCache(service.url, rendition.path)));
          // A busy machine answers no request for 10 MB in a second.
          const seconds = quick ? (all[name] < 5 * MB ? 1 : 3) : 5;
          const measure = (side: keyof typeof urls) => async () => {
            const load = await loadDelivery({ url: urls[side] + rendition.path, ranges, seconds });
            if (load.failures > 0) problems.push(`${side}, ${name}: ${load.failures} requests failed`);
            return load.requestsPerSecond;
          };
          const sides = {
            ours: measure('ours'),
            nginx: measure('nginx'),
            'nginx, tcp_nopush off': measure('nginx, tcp_nopush off'),
          };
          measured[name] = await alternate(sides, rounds, (message) => progress(`${name}: ${message}`));
        }
      } finally {
        await peer.stop();
      }
    } finally {
      await service.stop();
    }
    const ratioFor = (name: Case) => ratioOf(measured[name].ours, fasterNginx(measured[name]));
    const ratios = Object.fromEntries(cases.map((name) => [name, ratioFor(name)])) as Record<Case, Ratio>;
    return {
      ratios,
      tables: [
        {
          title: 'requests a second, medians',
          head: ['size', 'ours', 'nginx, tcp_nopush on', 'nginx, tcp_nopush off', 'ratio'],
          rows: cases.map((name) => {
            const { ours, nginx: on, 'nginx, tcp_nopush off': off } = measured[name];
            return [name, ...[ours, on, off].map((rates) => median(rates).toFixed(0)), ratios[name].value.toFixed(2)];
          }),
        },
      ],
      problems,
      notes: [
        `${loadProgram()}, the service and each nginx are a process each, over the very same files, which are in the page cache.`,
        `The ranges are at ${jumps.length} places in turn.`,
      ],
    };
  },
});
