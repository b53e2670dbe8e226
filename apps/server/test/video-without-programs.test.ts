import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FormatList, Status } from '@mds/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeClip } from './support/clips.ts';
import { png } from './support/pictures.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';
import { videoService } from './support/video-service.ts';

let folder: string;
let service: ServiceFixture;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mds-no-ffmpeg-'));
  const notFfmpeg = join(folder, 'ffmpeg');
  await writeFile(notFfmpeg, '#!/bin/sh\necho "something else"\n', { mode: 0o700 });
  service = await startService({ FFMPEG_PATH: notFfmpeg });
});
afterAll(async () => {
  await service.stop();
  await rm(folder, { recursive: true });
});

const processing = async () => {
  const { components } = Status.parse(await (await fetch(`${service.url}/api/v1/status`)).json());
  return components.find(({ name }) => name === 'Processing')?.status;
};

describe('without a usable ffmpeg', () => {
  it('the service lists no video or audio format, and a degraded component', async () => {
    // The response follows the search for the program, before any sample is decoded.
    const { data } = FormatList.parse(await (await fetch(`${service.url}/api/v1/formats`)).json());
    expect(new Set(data.map(({ kind }) => kind))).toEqual(new Set(['image']));
    const known = performance.now();
    await expect.poll(processing, { timeout: 30_000, interval: 20 }).toBe('degraded_performance');
    // 0.02 s, more on a busy machine; two rounds of probes would take 8 s.
    expect(performance.now() - known).toBeLessThan(6_000);
  }, 60_000);

  it('a video is refused with the reason, and pictures are processed', async () => {
    const video = videoService(service);
    const clip = await makeClip({ width: 160, height: 90, seconds: 1, frameRate: 10, sound: false });
    const response = await video.upload(clip, 'film.mp4');
    const { detail } = (await response.json()) as { detail: string };
    expect([response.status, detail]).toEqual([422, expect.stringMatching(/^[A-Z].*\.$/s)]);
    expect(detail).not.toContain(folder);
    const id = await video.accept(Buffer.from(png(1)), 'picture.png');
    expect((await video.ended(id)).status).toBe('ready');
  }, 60_000);
});
