import { defineBenchmark } from '../benchmark.ts';
import { alternate } from '../rounds.ts';
import { wrongBytes } from '../service/delivered-bytes.ts';
import { loadOnce, wrk } from '../service/delivery-load.ts';
import { connections } from '../service/load.ts';
import { builtService, startService } from '../service/start-service.ts';
import { dataDirFiller, dataDirWithObjects } from '../service/stored-objects.ts';
import { ratioOf } from '../statistics.ts';
import { rateTable } from './rate-table.ts';

const OBJECTS = 1_000;
/** Requested before, as misses and then as hits, so that the code is compiled as in a service that has been up for a while. */
const OTHERS = 500;
const WARM_UPS = 5;

export default defineBenchmark({
  name: 'delivery-miss',
  what: `first requests of ${OBJECTS.toLocaleString('en')} objects of 100 KB from the local object store, over ${connections} kept connections`,
  against: 'the same requests repeated, as HITs',
  regressionBound: true,
  goals: { miss: { says: 'misses a second, relative to hits a second', atLeast: 0.4 } },
  needs: [builtService, dataDirFiller, wrk],
  async run({ rounds, progress }) {
    const media = Array.from({ length: OBJECTS + OTHERS }, (_, index) => ({
      renditions: [
        { name: 'medium', extension: 'webp', contentType: 'image/webp', bytes: 100_000, seed: `picture ${index}` },
      ],
    }));
    const stored = await dataDirWithObjects('miss', media, progress);
    const paths = stored.renditions.slice(0, OBJECTS).map(({ path }) => path);
    const others = stored.renditions.slice(OBJECTS).map(({ path }) => path);
    const problems: string[] = [];
    const measure = async (url: string, kind: 'hit' | 'miss') => {
      const before = await counted(url);
      const { seconds, failures } = await loadOnce(url, paths);
      const after = await counted(url);
      if (failures > 0) problems.push(`${failures} requests failed`);
      // wrk leaves while the last requests are running: they may or may not be counted.
      const other = kind === 'hit' ? 'miss' : 'hit';
      const [asMeant, otherwise] = [after[kind] - before[kind], after[other] - before[other]];
      if (asMeant < OBJECTS - 2 * connections || otherwise > 2 * connections) {
        problems.push(`of ${OBJECTS} requests, ${asMeant} were answered as a ${kind} and ${otherwise} as a ${other}`);
      }
      return OBJECTS / seconds;
    };
    /** Runs each turn with a fresh service and an empty cache. The code that answers has run before. */
    const turn = async (work: (url: string) => Promise<number>) => {
      const service = await startService(stored.dataDir);
      try {
        for (let i = 0; i < WARM_UPS; i++) await askAll(service.url, others);
        return await work(service.url);
      } finally {
        await service.stop();
      }
    };
    const rates = await alternate(
      {
        misses: () => turn((url) => measure(url, 'miss')),
        hits: () =>
          turn(async (url) => {
            await askAll(url, paths);
            for (const rendition of stored.renditions.slice(0, 20)) {
              problems.push(...(await wrongBytes('ours', url, stored, rendition)));
            }
            return measure(url, 'hit');
          }),
      },
      rounds,
      progress,
    );
    return {
      ratios: { miss: ratioOf(rates.misses, rates.hits) },
      tables: [rateTable('requests a second', rates)],
      problems,
      notes: [
        `A fresh service for each turn, warmed up with ${OTHERS} other objects. Its metrics confirm that misses were misses and hits were hits.`,
        'The files are in the page cache, so the service is measured, not the disk. A miss reads its object and verifies its SHA-256.',
      ],
    };
  },
});

/** Requests each path, sixteen at a time, and discards the answers. */
async function askAll(url: string, paths: readonly string[]): Promise<void> {
  const left = [...paths];
  const ask = async () => {
    for (let path = left.pop(); path !== undefined; path = left.pop()) await (await fetch(url + path)).arrayBuffer();
  };
  await Promise.all(Array.from({ length: connections }, ask));
}

/** Deliveries so far, by the service's own count. */
async function counted(url: string): Promise<Record<'hit' | 'miss', number>> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const value = (kind: string) =>
    Number(new RegExp(`^mds_deliveries_total\\{[^}]*cache="${kind}"[^}]*\\} (\\d+)$`, 'm').exec(text)?.[1]);
  return { hit: value('hit'), miss: value('miss') };
}
