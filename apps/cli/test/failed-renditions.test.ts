import { execFile } from 'node:child_process';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { MediaDetail } from '@mds/client';
import { expect, vi } from 'vitest';
import { type ServiceProcess, spawnService } from '../../server/test/support/service-process.ts';
import { findSystemProgram, testWith } from '../../server/test/support/system-program.ts';
import { mdsHere, temporaryFolder } from './run-cli.ts';

const ffmpeg = process.env['FFMPEG_PATH'] ?? findSystemProgram('ffmpeg');
// Starts a service, and renders a video three times.
vi.setConfig({ testTimeout: 120_000 });

/** A service whose ffmpeg waits until it is released and then fails to encode H.264, until it is repaired; and the command. */
async function setUp() {
  const folder = await temporaryFolder();
  const fault = join(folder.path, 'fault');
  const held = join(folder.path, 'held');
  const program = join(folder.path, 'ffmpeg');
  await writeFile(fault, '');
  await writeFile(
    program,
    `#!/bin/sh
case " $* " in
  *" libx264 "*) [ -e '${fault}' ] && while [ -e '${held}' ]; do sleep 0.1; done && echo 'the encoder is out of order' >&2 && exit 1 ;;
esac
exec '${ffmpeg}' "$@"
`,
  );
  await chmod(program, 0o755);
  const clip = join(folder.path, 'clip.mp4');
  // Not H.264, which would be copied instead of encoded.
  const picture = ['-f', 'lavfi', '-i', 'testsrc2=size=160x90:rate=10:duration=2', '-c:v', 'mpeg4'];
  await promisify(execFile)(program, ['-nostdin', '-loglevel', 'error', ...picture, clip]);
  let service: ServiceProcess;
  try {
    service = await spawnService({ dataDir: join(folder.path, 'data'), env: { FFMPEG_PATH: program } });
  } catch (error) {
    await folder[Symbol.asyncDispose]();
    throw error;
  }
  const env = { MDS_URL: service.url, MDS_TOKEN: service.token };
  return {
    clip,
    mds: (...args: string[]) => mdsHere(args, { env }),
    /** The failures that `mds events` has printed so far. */
    async failures(): Promise<string[][]> {
      const args = ['events', '--after', '0', '--type', 'rendition.failed'];
      const { stdout } = await mdsHere(args, { env, interrupt: AbortSignal.timeout(2_000) });
      return stdout
        .split('\n')
        .slice(0, -1)
        .map((line) => line.split('\t').slice(2));
    },
    mend: () => rm(fault),
    hold: () => writeFile(held, ''),
    letFail: () => rm(held),
    async [Symbol.asyncDispose]() {
      await service.end('SIGKILL');
      await folder[Symbol.asyncDispose]();
    },
  };
}

testWith(ffmpeg, 'ffmpeg')(
  'ingest, list, url, events and retry report failed renditions of a real service',
  async () => {
    await using it = await setUp();
    const ingested = await it.mds('ingest', '--wait', '--json', it.clip);
    expect(ingested.code).toBe(1);
    const result = JSON.parse(ingested.stdout) as { media: MediaDetail; outcome: string; failed_renditions: string[] };
    const { id } = result.media;
    expect(result).toMatchObject({ outcome: 'created', media: { status: 'ready' } });
    expect(result.failed_renditions).toEqual(['hls.m3u8', 'mp4.mp4']);

    const listed = (await it.mds('media', 'list', '--detail')).stdout.trimEnd().split('\t');
    expect([listed[1], listed.at(-1)]).toEqual(['ready', 'hls.m3u8 mp4.mp4']);
    for (const name of ['hls', 'mp4', 'nope']) {
      const { code, stdout, stderr } = await it.mds('media', 'url', id, name);
      expect([code, stdout]).toEqual([3, '']);
      expect(stderr).toMatch(/ that is ready\.\n {2}There are .*poster\.jpg/);
    }
    const poster = await it.mds('media', 'url', id, 'poster', '--ext', 'jpg');
    expect((await fetch(poster.stdout.trim())).status).toBe(200);

    // It waits for the renditions, which fail again, and reports that. Meanwhile another command shows their state.
    await it.hold();
    const retrying = it.mds('media', 'retry', '--wait', id);
    const states = async () => {
      const { renditions } = JSON.parse((await it.mds('media', 'get', '--json', id)).stdout) as MediaDetail;
      return renditions.map(({ state }) => state);
    };
    await expect.poll(states, { timeout: 60_000 }).not.toContain('failed');
    const another = (await it.mds('media', 'retry', id)).stderr;
    expect(another).toContain('are already being made: hls.m3u8, mp4.mp4.');
    await it.letFail();
    expect(await retrying).toEqual({
      ...{ code: 1, stdout: `${id}\tready\t2 renditions failed: hls.m3u8, mp4.mp4\n`, stderr: '' },
    });
    const explained = (await it.mds('media', 'explain', id)).stdout;
    expect(explained).toMatch(/^stderr\t2\tladder\tthe encoder is out of order$/m);
    expect(explained.match(/^attempt\t\d+/gm)).toEqual(['attempt\t1', 'attempt\t2']);

    await it.mend();
    expect(await it.mds('media', 'retry', '--wait', id)).toMatchObject({ code: 0, stdout: `${id}\tready\n` });
    const stream = await it.mds('media', 'url', id, 'hls');
    expect(stream.code).toBe(0);
    expect((await fetch(stream.stdout.trim())).status).toBe(200);
    expect((await it.mds('ingest', '--wait', it.clip)).code).toBe(0);

    const failures = await it.failures();
    expect(failures.map(([type, about]) => [type, about])).toEqual(Array(4).fill(['rendition.failed', id]));
    expect(failures.map(([, , what]) => what?.split(' ')[0]).toSorted()).toEqual([
      ...['hls.m3u8', 'hls.m3u8', 'mp4.mp4', 'mp4.mp4'],
    ]);
  },
);
