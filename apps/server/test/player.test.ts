import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { browserPath, launchBrowser, type PageServer, servePages } from './support/browser.ts';
import { makeClip } from './support/clips.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';
import { findSystemProgram, testWith } from './support/system-program.ts';

const ffmpegPath = findSystemProgram('ffmpeg');
const inBrowser = testWith(browserPath, 'Chromium');
const withFfmpeg = testWith(ffmpegPath, 'ffmpeg');

const SECONDS = 9;
const PAGE = `<!doctype html><video muted playsinline></video><script src='/hls.js'></script><script src='/player.js'></script>`;

/** What `playHls` of player-page.js gives back; heights in pixels, of the rungs that were shown in order. */
interface PlayedHls {
  errors: string[];
  heights: number[];
  rungs: number[];
  lowest: number;
  highest: number;
  duration: number;
  totalVideoFrames: number;
  corruptedVideoFrames: number;
  heardBytes: number;
}

interface PlayedFile {
  height: number;
  duration: number;
  error: string | null;
}

describe('a real player', { timeout: 120_000 }, () => {
  let house: ServiceFixture;
  let pages: PageServer;
  let browser: Browser | undefined;
  let id: string;

  beforeAll(async () => {
    house = await startService();
    const clip = await readFile(
      await makeClip({ width: 1280, height: 720, seconds: SECONDS, frameRate: 30, sound: true }),
    );
    const { media } = await house.client.control.media.ingest(clip, { filename: 'clip.mp4' });
    id = media.id;
    await house.client.control.media.waitUntilReady(id, { timeoutMs: 110_000 });
    const hls = await readFile(createRequire(import.meta.url).resolve('hls.js/dist/hls.min.js'));
    const player = await readFile(new URL('./support/player-page.js', import.meta.url));
    pages = await servePages(PAGE, () => ({
      '/hls.js': ['text/javascript', hls],
      '/player.js': ['text/javascript', player],
    }));
    if (browserPath !== null) {
      browser = await launchBrowser(browserPath, '--autoplay-policy=no-user-gesture-required');
    }
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    pages?.close();
    await house?.stop();
  });

  async function openPage(): Promise<Page> {
    if (!browser) throw new Error('There is no browser.');
    const page = await browser.newPage();
    await page.goto(pages.url);
    return page;
  }

  inBrowser('hls.js plays the master playlist to its end, switches rungs, seeks, and reports no error', async () => {
    const page = await openPage();
    const seen = await page.evaluate<PlayedHls>(`playHls('${house.url}/media/${id}/hls/master.m3u8', ${SECONDS})`);
    expect(seen.errors).toEqual([]);
    expect(seen.rungs.toSorted((a, b) => a - b)).toEqual([360, 480, 720]);
    expect([seen.lowest, seen.highest]).toEqual([360, 720]);
    expect(seen.heights).toEqual(expect.arrayContaining([360, 720]));
    expect(Math.abs(seen.duration - SECONDS)).toBeLessThan(0.1);
    expect(seen.totalVideoFrames).toBeGreaterThan(60);
    expect(seen.corruptedVideoFrames).toBe(0);
    expect(seen.heardBytes).toBeGreaterThan(10_000);
    await page.close();
  });

  inBrowser('the MP4 plays before it is fully downloaded, and a seek requests a range', async () => {
    const page = await openPage();
    const answers: { status: number; range: string | undefined }[] = [];
    page.on('response', async (response) => {
      if (!response.url().endsWith('/mp4.mp4')) return;
      answers.push({ status: response.status(), range: (await response.request().allHeaders())['range'] });
    });
    const played = await page.evaluate<PlayedFile>(`playFile('${house.url}/media/${id}/mp4.mp4', ${SECONDS})`);
    expect(played).toMatchObject({ height: 720, error: null });
    expect(Math.abs(played.duration - SECONDS)).toBeLessThan(0.1);
    expect(answers.length).toBeGreaterThan(0);
    for (const { status, range } of answers) expect([status, range?.startsWith('bytes=')]).toEqual([206, true]);
    await page.close();
  });

  withFfmpeg('ffmpeg reads the whole master playlist without a warning', async () => {
    if (ffmpegPath === null) return;
    const url = `${house.url}/media/${id}/hls/master.m3u8`;
    const child = spawn(ffmpegPath, [
      '-hide_banner',
      '-nostdin',
      '-loglevel',
      'warning',
      '-i',
      url,
      '-map',
      '0',
      '-f',
      'null',
      '-',
    ]);
    let output = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    const [code] = (await once(child, 'close')) as [number | null];
    expect([code, output]).toEqual([0, '']);
  });
});
