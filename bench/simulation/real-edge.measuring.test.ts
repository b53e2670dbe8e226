import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noisePng } from '../../apps/server/test/support/pictures.ts';
import {
  type Deployment,
  figuresOf,
  get,
  sha256,
  startDeployment,
} from '../../apps/server/test/support/points-of-presence.ts';
import { createRandom } from '../pictures/painters/noise.mjs';
import type { CataloguedObject } from './catalogue.ts';
import { createSimulatedEdge } from './simulated-edge.ts';
import { createZipf } from './zipf.ts';

const KIB = 1024;
const REQUESTS = 800;
/** Far too little for everything: folder and memory both have to evict, and `large.jpg` never fits into memory. */
const ROOM = { cacheBytes: 600 * KIB, memoryCacheBytes: 20 * KIB };
/** The share of requests by which the two may differ. */
const TOLERANCE = 0.01;

let all: Deployment;
beforeAll(async () => {
  all = await startDeployment();
  await all.startEdge('ams', 'ams1', {
    MDS_CACHE_BYTES: String(ROOM.cacheBytes),
    MDS_MEMORY_CACHE_BYTES: String(ROOM.memoryCacheBytes),
  });
});
afterAll(() => all.stop());

describe('the simulation', () => {
  it('predicts the hits of a real point of presence, to 0.01 of the requests', async () => {
    // Sizes from some kilobytes to some hundred, in two renditions each.
    const ids = await Promise.all(
      Array.from({ length: 30 }, (_, index) => all.ingest(noisePng(`real-${index}`, 60 + index * 9, 50 + index * 7))),
    );
    const objects: CataloguedObject[] = [];
    for (const id of ids) {
      for (const file of ['thumb.webp', 'large.jpg']) {
        const { body } = await get(all.origin, `/media/${id}/${file}`);
        const object = { key: `/media/${id}/${file}`, sha256: sha256(body), bytes: body.length, pieces: null };
        objects.push({ mediaId: id, object, weight: 1 });
      }
    }
    const total = objects.reduce((sum, { object }) => sum + object.bytes, 0);
    expect(total).toBeGreaterThan(2 * ROOM.cacheBytes);

    const edge = all.node('ams');
    const simulated = createSimulatedEdge(ROOM);
    const zipf = createZipf(objects.length, 0.8);
    const random = createRandom(11);
    const hits = { real: 0, simulated: 0, memory: 0 };
    const differing: number[] = [];
    for (let request = 0; request < REQUESTS; request += 1) {
      if (request === REQUESTS / 2) {
        const [purged = ''] = ids;
        simulated.purge(purged);
        expect(await all.sendJson('POST', '/cache/purge?wait=20', { media_id: purged })).toMatchObject({
          complete: true,
        });
      }
      // Rank and size are unrelated.
      const owned = objects[(zipf.draw(random()) * 37) % objects.length] as CataloguedObject;
      const tier = simulated.deliver(owned);
      const answer = await get(edge, owned.object.key);
      expect([answer.status, answer.body.length]).toEqual([200, owned.object.bytes]);
      const isHit = answer.cache === 'HIT';
      if (isHit) hits.real += 1;
      if (tier !== 'origin') hits.simulated += 1;
      if (tier === 'memory') hits.memory += 1;
      if (isHit !== (tier !== 'origin')) differing.push(request);
    }

    // All three occur: otherwise the test would prove little.
    expect(hits.memory).toBeGreaterThan(REQUESTS * 0.1);
    expect(hits.real - hits.memory).toBeGreaterThan(REQUESTS * 0.1);
    expect(REQUESTS - hits.real).toBeGreaterThan(REQUESTS * 0.2);
    expect(differing.length / REQUESTS).toBeLessThanOrEqual(TOLERANCE);
    expect(Math.abs(hits.real - hits.simulated) / REQUESTS).toBeLessThanOrEqual(TOLERANCE);
    const figures = await figuresOf(edge);
    expect(figures['mds_cache_evictions_total{tier="memory"}']).toBeGreaterThan(20);
    expect(figures['mds_cache_evictions_total{tier="disk"}']).toBeGreaterThan(50);
    const reads = figures.mds_origin_reads_total ?? 0;
    expect(Math.abs(reads - simulated.originRequests) / REQUESTS).toBeLessThanOrEqual(TOLERANCE);
  });
});
