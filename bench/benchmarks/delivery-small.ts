import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { defineBenchmark } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { notFromCache, wrongBytes } from '../service/delivered-bytes.ts';
import { loadDelivery, loadProgram } from '../service/delivery-load.ts';
import { connections } from '../service/load.ts';
import { builtService, startService } from '../service/start-service.ts';
import { dataDirFiller, dataDirWithObjects, type StoredRendition } from '../service/stored-objects.ts';
import { fasterNginx, fieldsToAdd, nginx, startTunedNginx } from '../sides/nginx.ts';
import { ratioOf } from '../statistics.ts';
import { rateTable } from './rate-table.ts';

const webp = { extension: 'webp', contentType: 'image/webp' };
const renditions = [
  { name: 'thumb', ...webp, bytes: 10_240, seed: '10 KB' },
  { name: 'tiny', ...webp, bytes: 1_024, seed: '1 KB' },
];

export default defineBenchmark({
  name: 'delivery-small',
  what: `HIT of a rendition of 10 KB and of 1 KB, over ${connections} kept connections`,
  against: 'nginx with one worker, sendfile and open files kept open; bare node:http that sends the same from memory',
  goals: {
    '10 KB nginx': { says: '10 KB: our requests a second to those of nginx', atLeast: 0.65 },
    '10 KB bare': { says: '10 KB: our requests a second to bare', atLeast: 0.85 },
    '1 KB nginx': { says: '1 KB: our requests a second to those of nginx', atLeast: 0.65 },
    '1 KB bare': { says: '1 KB: our requests a second to bare', atLeast: 0.85 },
  },
  needs: [builtService, dataDirFiller, nginx],
  async run({ rounds, quick, progress }) {
    const stored = await dataDirWithObjects('small', [{ renditions }], progress);
    const [tenKb, oneKb] = stored.renditions as [StoredRendition, StoredRendition];
    const problems: string[] = [];
    const service = await startService(stored.dataDir);
    try {
      // The first answer of each is a miss. nginx gets the header fields of a hit.
      for (const { path } of stored.renditions) await (await fetch(service.url + path)).arrayBuffer();
      const fields = fieldsToAdd(await fetch(service.url + tenKb.path));
      const files = await startTunedNginx(stored, fields);
      try {
        const measured = { '10 KB': await compare(tenKb, '10 KB'), '1 KB': await compare(oneKb, '1 KB') };
        return {
          ratios: {
            '10 KB nginx': ratioOf(measured['10 KB'].ours, fasterNginx(measured['10 KB'])),
            '10 KB bare': ratioOf(measured['10 KB'].ours, measured['10 KB'].bare),
            '1 KB nginx': ratioOf(measured['1 KB'].ours, fasterNginx(measured['1 KB'])),
            '1 KB bare': ratioOf(measured['1 KB'].ours, measured['1 KB'].bare),
          },
          tables: Object.entries(measured).map(([size, sides]) => rateTable(`${size}, requests a second`, sides)),
          problems,
          notes: [
            `${loadProgram()} and each side are a process each. All send the same bytes and header fields. The ETags of nginx have its own form. nginx counts with the better of \`tcp_nopush\` on and off.`,
          ],
        };
      } finally {
        await files.stop();
      }

      async function compare(rendition: StoredRendition, size: string) {
        const bare = await startBare(service.url + rendition.path);
        const sides = {
          ours: service.url + rendition.path,
          nginx: files.urls.nginx + rendition.path,
          'nginx, tcp_nopush off': files.urls['nginx, tcp_nopush off'] + rendition.path,
          bare: bare.url,
        };
        const measure = async (side: keyof typeof sides) => {
          const { requestsPerSecond, failures } = await loadDelivery({ url: sides[side], seconds: quick ? 2 : 6 });
          if (failures > 0) problems.push(`${side}, ${size}: ${failures} requests failed`);
          return requestsPerSecond;
        };
        try {
          problems.push(
            ...(await notFromCache(service.url, rendition.path)),
            ...(await wrongBytes('ours', service.url, stored, rendition)),
            ...(await wrongBytes('nginx', files.urls.nginx, stored, rendition)),
            ...(await wrongBytes('bare', bare.url, stored, rendition)),
            ...(await missingFields(sides)),
          );
          return await alternate(
            {
              ours: () => measure('ours'),
              nginx: () => measure('nginx'),
              'nginx, tcp_nopush off': () => measure('nginx, tcp_nopush off'),
              bare: () => measure('bare'),
            },
            rounds,
            (message) => progress(`${size}: ${message}`),
          );
        } finally {
          bare.stop();
        }
      }
    } finally {
      await service.stop();
    }
  },
});

async function startBare(address: string) {
  const child = fork(fileURLToPath(new URL('../sides/bare-http.ts', import.meta.url)), [address]);
  const [{ url }] = (await once(child, 'message')) as [{ url: string }];
  return { url, stop: () => child.disconnect() };
}

/** Fields that one side sends and another does not would make the comparison unfair. */
async function missingFields(sides: Readonly<Record<'ours' | 'nginx' | 'bare', string>>): Promise<string[]> {
  const own: ReadonlySet<string> = new Set(['server', 'keep-alive', 'x-request-id']);
  const namesOf = async (url: string) => {
    const { headers } = await fetch(url);
    return [...headers.keys()]
      .filter((name) => !own.has(name))
      .toSorted()
      .join(', ');
  };
  const [ours, ...others] = await Promise.all([namesOf(sides.ours), namesOf(sides.nginx), namesOf(sides.bare)]);
  return others.every((names) => names === ours)
    ? []
    : [`header fields differ: ours ${ours}; others ${others.join('; ')}`];
}
