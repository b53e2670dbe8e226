import { readFile } from 'node:fs/promises';
import { defineBenchmark, type Ratio, type RunContext, type Table } from '../benchmark.ts';
import { imagePresets } from '../pictures/image-presets.ts';
import { twelveMegapixels } from '../pictures/twelve-megapixels.ts';
import { unlikeAnyOther } from '../pictures/unlike-any-other.ts';
import { alternate } from '../rounds.ts';
import { processFiles } from '../service/process-memory.ts';
import { sharedServers, startWorkerless, type WorkerlessService } from '../service/several-workers.ts';
import { builtService } from '../service/start-service.ts';
import { type WorkedOff, workOff } from '../service/work-off.ts';
import { ratioOf, summarize } from '../statistics.ts';

const MEDIA = 24;
const deployments = {
  'embedded queue': { queue: 'embedded', store: 'folder' },
  BullMQ: { queue: 'bullmq', store: 'folder' },
  'embedded queue, S3': { queue: 'embedded', store: 's3' },
} as const;
type Deployment = keyof typeof deployments;
type Side = 'one worker' | 'two workers';
type Measured = Record<Side, WorkedOff[]>;

export default defineBenchmark({
  name: 'workers',
  what: `a batch of ${MEDIA} JPEGs of 12 MP, queued before a worker starts, processed by two workers, each with one render at a time on one thread`,
  against: 'one such worker',
  regressionBound: true,
  goals: {
    embedded: { says: 'embedded queue: time of two workers, relative to one', atMost: 0.6 },
    embeddedQueue: { says: 'embedded queue: its share of the time of two workers', atMost: 0.02 },
    bullmq: { says: 'BullMQ: time of two workers, relative to one', atMost: 0.6 },
    bullmqQueue: { says: 'BullMQ: its share of the time of two workers', atMost: 0.02 },
  },
  needs: [builtService, processFiles, ...sharedServers],
  async run(context) {
    const measured = {} as Record<Deployment, Measured>;
    const problems: string[] = [];
    const media = context.quick ? MEDIA / 3 : MEDIA;
    for (const name of Object.keys(deployments) as Deployment[]) {
      measured[name] = await measure(name, { ...context, media, problems });
    }
    const embedded = measured['embedded queue'];
    const bullmq = measured.BullMQ;
    return {
      ratios: {
        embedded: speedUp(embedded),
        embeddedQueue: queueShare(embedded),
        bullmq: speedUp(bullmq),
        bullmqQueue: queueShare(bullmq, embedded),
      },
      tables: [timeTable(measured), waitingTable(measured, media), processorTable(measured, media)],
      problems,
      notes: [
        `${media} media a turn, ${imagePresets.length} renditions each. The time runs from the start of the first media object to the end of the last. It includes the start of the workers and their engines on both sides.`,
        'PostgreSQL, the service that ingested the media, and the S3 server if there is one run on the same two cores as the workers. Commits wait for the disk.',
        `With S3, ${describeSpeedUp(measured['embedded queue, S3'])}. That is no goal: the S3 server is a Python program on the same cores, while a real store runs on other machines.`,
        "The queue's share is the time for which workers are idle because of it: the claims of jobs. Its upkeep (heartbeats, leases, progress) runs beside renders and mostly waits for busy cores; its cost is part of PostgreSQL's processor time. A job ends in the transaction that makes its media object ready, which counts as writing. The time that BullMQ adds to these writes counts for the queue.",
      ],
    };
  },
});

async function measure(
  name: Deployment,
  context: RunContext & { media: number; problems: string[] },
): Promise<Measured> {
  const { rounds, progress, media, problems } = context;
  const pictures = await Promise.all((await twelveMegapixels()).map((path) => readFile(path)));
  const measured: Measured = { 'one worker': [], 'two workers': [] };
  const service = await startWorkerless(deployments[name]);
  try {
    const turn = async (side: Side, workers: number) => {
      const batch = Array.from({ length: media }, (_, i) => unlikeAnyOther(pictures[i % pictures.length] as Buffer));
      const { ids, ...worked } = await workOff(service, batch, workers);
      problems.push(...(await wrongMedia(service, ids)).map((problem) => `${name}, ${side}: ${problem}`));
      if (worked.shares.some((share) => share === 0)) problems.push(`${name}: one of ${workers} workers got no job`);
      measured[side].push(worked);
      return worked.ms;
    };
    await alternate(
      { 'one worker': () => turn('one worker', 1), 'two workers': () => turn('two workers', 2) },
      rounds,
      (message) => progress(`${name}: ${message}`),
    );
  } finally {
    await service.stop();
  }
  // The first turn of each side does not count.
  for (const worked of Object.values(measured)) worked.shift();
  return measured;
}

/** @returns the media that were not made completely at the first attempt */
async function wrongMedia({ client }: WorkerlessService, ids: readonly string[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const id of ids) {
    const { status, attempts, renditions } = await client.control.media.get(id);
    const ready = renditions.filter(({ state }) => state === 'ready').length;
    if (status === 'ready' && attempts === 1 && ready === imagePresets.length) continue;
    wrong.push(`${id} is ${status} after ${attempts} attempts, with ${ready} renditions`);
  }
  return wrong;
}

function speedUp({ 'one worker': one, 'two workers': two }: Measured): Ratio {
  return ratioOf(
    two.map(({ ms }) => ms),
    one.map(({ ms }) => ms),
  );
}

/** @param plain measured with a queue that adds nothing to the writes of media */
function queueShare({ 'two workers': two }: Measured, plain?: Measured): Ratio {
  const usual = plain === undefined ? null : summarize(plain['two workers'].map((worked) => worked.leaseWritesMs));
  const shares = two.map(({ ms, claimsMs, leaseWritesMs }) => {
    const added = usual === null ? 0 : Math.max(0, leaseWritesMs - usual.median);
    return (claimsMs + added) / (2 * ms);
  });
  const { median, low, high } = summarize(shares);
  return { value: median, low, high };
}

function describeSpeedUp(measured: Measured): string {
  return `two workers take ${speedUp(measured).value.toFixed(2)} of the time of one`;
}

function rowsOf(
  measured: Record<Deployment, Measured>,
  cells: (worked: readonly WorkedOff[], workers: number) => string[],
): string[][] {
  return Object.entries(measured).flatMap(([name, { 'one worker': one, 'two workers': two }]) => [
    [`${name}: one worker`, ...cells(one, 1)],
    [`${name}: two workers`, ...cells(two, 2)],
  ]);
}

function timeTable(measured: Record<Deployment, Measured>): Table {
  const rows = rowsOf(measured, (worked) => {
    const { median, low, high } = summarize(worked.map(({ ms }) => ms / 1000));
    return [median, low, high].map((seconds) => seconds.toFixed(1));
  });
  return { title: 'seconds for the batch', head: ['side', 'median', 'lowest', 'highest'], rows };
}

function waitingTable(measured: Record<Deployment, Measured>, media: number): Table {
  const rows = rowsOf(measured, (worked, workers) =>
    (['claimsMs', 'upkeepMs', 'leaseWritesMs'] as const).flatMap((what) => {
      const aMediaObject = summarize(worked.map((each) => each[what] / media)).median;
      const share = summarize(worked.map((each) => each[what] / (workers * each.ms))).median;
      return [aMediaObject.toFixed(1), `${(100 * share).toFixed(2)} %`];
    }),
  );
  const ofTheirTime = "of the workers' time";
  const head = ['side', 'claims', ofTheirTime, 'upkeep', ofTheirTime, 'writing', ofTheirTime];
  return { title: 'what workers wait for, milliseconds a media object', head, rows };
}

function processorTable(measured: Record<Deployment, Measured>, media: number): Table {
  const who = ['workers', 'PostgreSQL', 'service', 'S3 server'] as const;
  const rows = rowsOf(measured, (worked) =>
    who.map((name) => summarize(worked.map(({ processorMs }) => processorMs[name] / media)).median.toFixed(0)),
  );
  const head = ['side', 'workers and renders', ...who.slice(1)];
  return { title: 'processor time, milliseconds a media object', head, rows };
}
