import { defineBenchmark } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { notFromCache, wrongBytes } from '../service/delivered-bytes.ts';
import { loadDelivery, loadProgram } from '../service/delivery-load.ts';
import { connections } from '../service/load.ts';
import { builtService, startService } from '../service/start-service.ts';
import { dataDirFiller, dataDirWithObjects, type StoredRendition } from '../service/stored-objects.ts';
import { fasterNginx, fieldsToAdd, type NginxSide, nginx, startTunedNginx } from '../sides/nginx.ts';
import { ratioOf } from '../statistics.ts';
import { rateTable } from './rate-table.ts';

const MB = 1_000_000;
const film = { extension: 'mp4', contentType: 'video/mp4' };
const renditions = [
  { name: 'medium', extension: 'webp', contentType: 'image/webp', bytes: 100_000, seed: '100 KB' },
  { name: 'clip', ...film, bytes: MB, seed: '1 MB' },
  { name: 'short', ...film, bytes: 10 * MB, seed: '10 MB' },
  { name: 'long', ...film, bytes: 100 * MB, seed: '100 MB' },
];
/** As a player jumps about: at 64 places, none of them where a piece begins. */
const jumps = Array.from({ length: 64 }, (_, index) => {
  const start = ((index * 37) % 64) * 1_500_000 + 12_345;
  return `bytes=${start}-${start + MB - 1}`;
});

type Case = '100 KB' | '1 MB' | '10 MB' | '1 MB of 100 MB';

export default defineBenchmark({
  name: 'delivery-large',
  what: `HIT of 100 KB (memory), 1 MB, 10 MB and ranges of 1 MB of 100 MB (disk), over ${connections} kept connections`,
  against: 'nginx with one worker, sendfile and open files kept open',
  goals: {
    '100 KB': { says: '100 KB: our requests a second to those of nginx', atLeast: 1 },
    '1 MB': { says: '1 MB: our requests a second to those of nginx', atLeast: 1 },
    '10 MB': { says: '10 MB: our requests a second to those of nginx', atLeast: 1 },
    '1 MB of 100 MB': { says: '1 MB of 100 MB: our requests a second to those of nginx', atLeast: 1 },
  },
  needs: [builtService, dataDirFiller, nginx],
  async run({ rounds, quick, progress }) {
    const stored = await dataDirWithObjects('large', [{ renditions }], progress);
    const [hundredKb, oneMb, tenMb, hundredMb] = stored.renditions as [
      StoredRendition,
      StoredRendition,
      StoredRendition,
      StoredRendition,
    ];
    const problems: string[] = [];
    const service = await startService(stored.dataDir);
    try {
      for (const { path } of stored.renditions) await (await fetch(service.url + path)).arrayBuffer();
      const files = await startTunedNginx(stored, fieldsToAdd(await fetch(service.url + hundredKb.path)));
      try {
        const measured: Record<Case, Record<'ours' | NginxSide, number[]>> = {
          '100 KB': await compare(hundredKb, '100 KB'),
          '1 MB': await compare(oneMb, '1 MB'),
          '10 MB': await compare(tenMb, '10 MB'),
          '1 MB of 100 MB': await compare(hundredMb, '1 MB of 100 MB', jumps),
        };
        const ratio = (name: Case) => ratioOf(measured[name].ours, fasterNginx(measured[name]));
        return {
          ratios: {
            '100 KB': ratio('100 KB'),
            '1 MB': ratio('1 MB'),
            '10 MB': ratio('10 MB'),
            '1 MB of 100 MB': ratio('1 MB of 100 MB'),
          },
          tables: Object.entries(measured).map(([name, sides]) => rateTable(`${name}, requests a second`, sides)),
          problems,
          notes: [
            `${loadProgram()}, the service and nginx are a process each, over the same files, which are in the page cache. nginx counts with the better of \`tcp_nopush\` on and off.`,
            loadProgram() === 'wrk'
              ? `The ranges are at ${jumps.length} places in turn.`
              : 'The range is always the same one: without wrk there is only one.',
          ],
        };
      } finally {
        await files.stop();
      }

      async function compare(rendition: StoredRendition, name: Case, ranges: readonly string[] = []) {
        for (const [side, url] of [
          ['ours', service.url],
          ['nginx', files.urls.nginx],
        ] as const) {
          problems.push(...(await wrongBytes(side, url, stored, rendition, ranges[1])));
        }
        problems.push(...(await notFromCache(service.url, rendition.path)));
        const measure = async (side: string, url: string) => {
          const load = await loadDelivery({ url: url + rendition.path, ranges, seconds: quick ? 2 : 6 });
          if (load.failures > 0) problems.push(`${side}, ${name}: ${load.failures} requests failed`);
          return load.requestsPerSecond;
        };
        return alternate(
          {
            ours: () => measure('ours', service.url),
            nginx: () => measure('nginx', files.urls.nginx),
            'nginx, tcp_nopush off': () => measure('nginx, tcp_nopush off', files.urls['nginx, tcp_nopush off']),
          },
          rounds,
          (message) => progress(`${name}: ${message}`),
        );
      }
    } finally {
      await service.stop();
    }
  },
});
