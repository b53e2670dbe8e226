import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { defineBenchmark } from '../benchmark.ts';
import { imagePresets } from '../pictures/image-presets.ts';
import { twelveMegapixelSize, twelveMegapixels } from '../pictures/twelve-megapixels.ts';
import { alternate } from '../rounds.ts';
import { builtService, type RunningService, startService } from '../service/start-service.ts';
import { openRenderer } from '../sides/open-renderer.ts';
import { ratioOf, summarize } from '../statistics.ts';

/** Often enough to see it; asked more often, the service and the benchmark spend the time on the asking. */
const pollMs = 50;
const patienceMs = 60_000;

export default defineBenchmark({
  name: 'ready',
  what: 'from the last byte of a 12 MP JPEG, uploaded over HTTP, to `ready`',
  against: 'the `image` figure: the same picture rendered by the engine alone, in one process',
  goals: { ready: { says: 'last byte to ready, to the rendering alone', atMost: 1.25 } },
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
      const times = await alternate(
        {
          ready: () => uploadUntilReady(service, token, unlikeAnyOther(picture), problems),
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
          `The state is asked for every ${pollMs} ms, so up to ${pollMs} ms are the benchmark's own.`,
          'Every upload differs in a JPEG comment: the same picture, but no bytes that the service has seen.',
        ],
      };
    } finally {
      await engine.stop();
      await service.stop();
      await rm(scratch, { recursive: true, force: true });
    }
  },
});

/** The JPEG with a comment (ITU-T T.81, B.2.4.5) right after its first marker: other bytes, the same picture. */
function unlikeAnyOther(jpeg: Buffer): Buffer {
  const comment = randomBytes(16);
  const head = Buffer.from([0xff, 0xfe, 0, comment.length + 2]);
  return Buffer.concat([jpeg.subarray(0, 2), head, comment, jpeg.subarray(2)]);
}

/** Milliseconds from the moment that the last byte was handed to the kernel until the medium is `ready`. */
async function uploadUntilReady(
  { url }: RunningService,
  token: string,
  bytes: Buffer,
  problems: string[],
): Promise<number> {
  const authorization = `Bearer ${token}`;
  const upload = request(`${url}/control/v1/media?filename=bench.jpg`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'image/jpeg', 'content-length': bytes.length },
  });
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
  const sent = once(upload, 'finish');
  upload.end(bytes);
  await sent;
  const start = performance.now();
  const [response] = await answered;
  const { id } = (await jsonOf(response)) as { id: string };
  if (response.statusCode !== 201) throw new Error(`The upload was answered ${response.statusCode}.`);
  while (performance.now() - start < patienceMs) {
    const detail = await fetch(`${url}/control/v1/media/${id}`, { headers: { authorization } });
    const { status, renditions } = (await detail.json()) as { status: string; renditions: { state: string }[] };
    if (status === 'ready') {
      const ms = performance.now() - start;
      const ready = renditions.filter(({ state }) => state === 'ready').length;
      if (ready !== imagePresets.length) problems.push(`${id} is ready with ${ready} renditions`);
      return ms;
    }
    if (status === 'failed')
      throw new Error(`The service could not process the picture: ${JSON.stringify(renditions)}`);
    await sleep(pollMs);
  }
  throw new Error(`The picture was not ready after ${patienceMs / 1000} s.`);
}

async function jsonOf(response: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString());
}
