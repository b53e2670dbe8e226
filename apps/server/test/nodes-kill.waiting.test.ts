import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Balancer, startBalancer } from './support/node-kills/balancer.ts';
import {
  abandonedFolders,
  checkLeftovers,
  checkOriginals,
  checkRows,
  decodeFaults,
  processesOf,
  unfinishedFiles,
} from './support/node-kills/checks.ts';
import { type DatabaseWatch, watchDatabase } from './support/node-kills/database-watch.ts';
import { createDeliveredBytes } from './support/node-kills/delivered-bytes.ts';
import { checkEvents, followEvents } from './support/node-kills/events.ts';
import { createFleet, type Fleet, type FleetNode } from './support/node-kills/fleet.ts';
import { createFleetClient } from './support/node-kills/fleet-client.ts';
import { watchLatency } from './support/node-kills/latency.ts';
import { createLedger } from './support/node-kills/ledger.ts';
import { createReaders } from './support/node-kills/readers.ts';
import { createTestFiles, KILL_PRESETS, type TestFiles } from './support/node-kills/test-files.ts';
import { createWriters } from './support/node-kills/writers.ts';
import { seededRandom } from './support/seeded-random.ts';
import { describeNodes, type SeveralNodes, startSeveralNodes } from './support/several-nodes.ts';

/** `MDS_TEST_NODE_KILLS=50 npm test -- apps/server/test/nodes-kill.waiting.test.ts` for the long version. */
const ROUNDS = Number(process.env['MDS_TEST_NODE_KILLS'] ?? 2);
const SEED = Number(process.env['MDS_TEST_SEED'] ?? 20_261_122);
/** A dead worker's job is processed again within this time. */
const TAKEN_UP_MS = 60_000;
/** After so many defects no more nodes are killed. */
const MAX_DEFECTS = 10;
/** The number of renditions to decode at the end. */
const DECODED = 30;

describeNodes('two api, two worker and two edge processes', (bin) => {
  let all: SeveralNodes;
  let balancer: Balancer;
  let fleet: Fleet;
  let files: TestFiles;
  let database: DatabaseWatch;
  const random = seededRandom(SEED);
  beforeEach(async () => {
    files = await createTestFiles(random);
    all = await startSeveralNodes(bin, {
      postgres: { fsync: true },
      presets: KILL_PRESETS,
      env: { MDS_QUEUE: 'bullmq', MDS_FETCH_ALLOW: '127.0.0.1', MDS_WORKER_CONCURRENCY: '1' },
    });
    balancer = await startBalancer(() => fleet.of('api').flatMap(({ isUp, url }) => (isUp ? [url] : [])));
    fleet = createFleet(all, balancer);
  }, 120_000);
  afterEach(async () => {
    await database?.stop();
    await balancer?.stop();
    await all?.stop();
    await files?.stop();
  });

  it(
    `fault 16: ${ROUNDS} kill -9 of one of each lose nothing and fail no other node`,
    async () => {
      await fleet.start();
      database = watchDatabase(all.databaseUrl);
      const lately: string[] = [];
      const startedMs = performance.now();
      const clock = () => `${((performance.now() - startedMs) / 1000).toFixed(1)} s`;
      const latency = watchLatency(fleet);
      const client = createFleetClient({
        context: () => `at ${clock()}; ${lately.slice(-6).join(', ')}`,
        wasSlow: latency.wasSlow,
      });
      const ledger = createLedger();
      const bytes = createDeliveredBytes();
      const load = { fleet, client, ledger, random };
      const writers = createWriters({ ...load, files });
      const readers = createReaders({ ...load, bytes });
      const events = followEvents(fleet);
      const stopping = new AbortController();
      const repeat = async (work: () => Promise<void>, pauseMs: number) => {
        while (!stopping.signal.aborted) {
          await work();
          await sleep(pauseMs * (0.5 + random()));
        }
      };
      const loops = [
        repeat(writers.send, 150),
        repeat(writers.send, 150),
        repeat(writers.sendResumably, 300),
        repeat(writers.requestFetch, 600),
        repeat(writers.remove, 1_200),
        repeat(writers.look, 400),
        ...Array.from({ length: 5 }, () => repeat(readers.read, 60)),
      ];
      // A loop that fails ends the whole test.
      const broken = Promise.all(loops).then(() => undefined);
      broken.catch(() => stopping.abort());

      let jobsLost = 0;
      const killAndRestart = async (victims: FleetNode[]) => {
        lately.push(`${clock()} killed ${victims.map(({ name }) => name).join(' and ')}`);
        const pids = await fleet.kill(victims);
        for (const [n, victim] of victims.entries()) jobsLost += await database.noteDeath(victim, pids[n] ?? 0);
        await Promise.all(
          victims.map(async (victim) => {
            await sleep(random() * 1_500);
            await fleet.restart(victim);
            lately.push(`${clock()} ${victim.name} is back`);
          }),
        );
      };
      for (let round = 1; round <= ROUNDS && !stopping.signal.aborted; round += 1) {
        await sleep(200 + random() * 2_000);
        const victims = (['api', 'worker', 'edge'] as const).map(
          (role) => fleet.of(role)[random() < 0.5 ? 0 : 1] as FleetNode,
        );
        if (random() < 0.4) await killAndRestart(victims);
        else {
          const one = async (victim: FleetNode) => {
            await sleep(random() * 1_500);
            await killAndRestart([victim]);
          };
          await Promise.all(victims.map(one));
        }
        if (round % 10 === 0) {
          const { length } = ledger.kept();
          console.log(`${clock()}: ${round} rounds, ${length} media kept, ${client.counts.requests} requests`);
        }
        if (client.defects.length >= MAX_DEFECTS) break;
      }
      stopping.abort();
      await broken;

      // Acknowledged media are processed now, with all nodes. The wait ends if there is no progress.
      let most = -1;
      for (let deadline = Date.now() + TAKEN_UP_MS; Date.now() < deadline && ledger.pending().length > 0; ) {
        await writers.look();
        await readers.read();
        const ready = ledger.readyFor(0).length;
        if (ready > most) deadline = Date.now() + TAKEN_UP_MS;
        most = ready;
        await sleep(100);
      }
      for (const { mediaId, fetchId, how } of ledger.pending()) {
        client.defect(`${mediaId ?? fetchId}, sent by ${how}, does not become ready`);
      }

      const decoded = await mkdtemp(join(tmpdir(), 'mds-decoded-'));
      try {
        await judgeDelivery(decoded);
      } finally {
        await rm(decoded, { recursive: true, force: true });
      }
      const written = await database.events();
      await events.through(Math.max(...written));
      await events.stop();
      await latency.stop();
      const longestMs = Math.max(0, ...database.lostJobs.map(({ takenUpMs }) => takenUpMs ?? Number.POSITIVE_INFINITY));
      const wrong = [
        ...checkEvents(events.events, written, ledger),
        ...(await checkOriginals(all, ledger)),
        ...(await checkRows({ database, ledger, fleet })),
      ];
      if (client.defects.length > 0) console.log(fleet.logs());
      // A worker counts as dead after a silence and two more checks.
      await expect.poll(() => abandonedFolders(all, fleet), { timeout: 90_000, interval: 500 }).toBe(0);
      // The next start removes the leftovers of deletions. This deletion certainly leaves some.
      const [last] = fleet.of('api') as [FleetNode];
      await cutDeletionOff(last);
      const left = (await checkLeftovers(all, ledger)).length;
      await fleet.restart(last);
      await expect.poll(() => checkLeftovers(all, ledger), { timeout: 60_000, interval: 500 }).toEqual([]);
      const notEnded = await fleet.end();
      const leftovers = await checkLeftovers(all, ledger);
      const unfinished = await unfinishedFiles(all, fleet);
      const processes = await processesOf(all);

      const { requests, underKilled, shed } = client.counts;
      const { sent, resumable, continued, fetches, videos, deleted } = writers.counts;
      console.log(
        `fault 16: ${ROUNDS} rounds of kill -9 of an api, a worker and an edge in ${clock()}; begun: ${sent} files in one request (${videos} films), ${resumable} resumable (${continued} times gone on with), ${fetches} fetches; ${ledger.kept().length} acknowledged and kept, ${deleted} deleted, 0 lost; ${jobsLost} jobs lost their worker, taken up after ${(longestMs / 1000).toFixed(1)} s at most; ${requests} requests, ${underKilled} in flight at a killed node, ${shed} sent away for want of processor time (an api took ${(latency.longestMs / 1000).toFixed(1)} s at worst to say that it is there), ${client.defects.length} failed elsewhere, the slowest ${(client.slowest.ms / 1000).toFixed(1)} s (${client.slowest.what}); ${bytes.counts.whole} bodies whole and ${bytes.counts.parts} in part compared; ${events.events.length} events over ${events.reconnects} reconnects; ${balancer.moved} reads moved by the balancer; ${left} objects that a deletion left at the end went with the last start`,
      );
      expect({ defects: client.defects, wrong, notEnded, leftovers, unfinished, processes }).toEqual({
        ...{ defects: [], wrong: [], notEnded: [], leftovers: [], unfinished: [], processes: [] },
      });
      expect(left).toBeGreaterThan(0);
      expect(longestMs).toBeLessThan(TAKEN_UP_MS);
      expect(ledger.kept().length).toBeGreaterThan(ROUNDS);
      expect(bytes.counts.whole).toBeGreaterThan(10 * ROUNDS);

      /** Kills an api after it has deleted the rows of a media object, and before all of its objects. */
      async function cutDeletionOff(api: FleetNode) {
        const kept = ledger.kept();
        const entry = kept.find(({ kind }) => kind === 'video') ?? kept[0];
        if (!entry) throw new Error('Nothing is kept.');
        entry.isLeaving = true;
        const asked = client.request(api, `/control/v1/media/${entry.mediaId}`, { method: 'DELETE' });
        const isThere = async () =>
          (await database.query('SELECT FROM media WHERE id = $1', [entry.mediaId])).length > 0;
        while (await isThere());
        await fleet.kill([api]);
        await asked;
      }

      /** Reads every rendition from each api and each edge. Deleted media must be absent. */
      async function judgeDelivery(folder: string) {
        const nodes = fleet.up('api', 'edge');
        let left = DECODED;
        for (const entry of ledger.kept()) {
          for (const path of entry.paths) {
            for (const node of nodes) await readers.readWhole(node, path, entry);
            if (left === 0 || path.endsWith('.m3u8')) continue;
            left -= 1;
            const answer = await client.requestUntilAnswered(() => nodes[left % nodes.length] as FleetNode, path);
            const file = join(folder, `rendition${extname(path)}`);
            await writeFile(file, answer.body);
            const faults = await decodeFaults(file);
            if (faults !== '') client.defect(`${path} does not decode: ${faults}`);
          }
        }
        const rows = await database.query<{ path: string; sha256: string; bytes: string }>(
          "SELECT '/media/' || media_id || '/' || name || '.' || extension AS path, sha256, bytes FROM media_renditions WHERE state = 'ready' AND files = 1",
        );
        for (const { path, sha256, bytes: size } of rows) {
          const delivered = bytes.of(path);
          if (delivered?.sha256 === sha256 && delivered.bytes === Number(size)) continue;
          client.defect(`${path} was delivered as ${JSON.stringify(delivered)} and is recorded as ${sha256}, ${size}`);
        }
        for (const { mediaId } of ledger.deletedFor(0)) {
          for (const node of nodes) {
            const { status } = await client.requestUntilAnswered(() => node, `/media/${mediaId}/manifest.json`);
            if (status !== 404) client.defect(`${mediaId} was deleted, and ${node.name} says ${status}`);
          }
        }
      }
    },
    // Restarting three nodes, and the processing afterwards, depend on the speed of the machine.
    180_000 + ROUNDS * 60_000,
  );
});
