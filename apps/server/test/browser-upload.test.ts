import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { startCuttingProxy } from '../../../packages/client/test/cutting-proxy.ts';
import { browserPath, launchBrowser, type PageServer, servePages } from './support/browser.ts';
import { noisePng } from './support/pictures.ts';
import { type ServiceFixture, startService } from './support/service-fixture.ts';
import { testWith } from './support/system-program.ts';

const inBrowser = testWith(browserPath, 'Chromium');

const KIB = 1024;

/** The result of `uploadByClient` in browser-upload-page.js. */
interface Uploaded {
  id?: string;
  created?: boolean;
  error?: string;
  code?: string | null;
  reports: { sentBytes: number; acceptedBytes: number; totalBytes: number | null }[];
  /** The entries of localStorage afterwards. */
  kept: number;
}

describe('uploads from pages of another origin', { timeout: 120_000 }, () => {
  let house: ServiceFixture;
  let pages: PageServer;
  let browser: Browser | undefined;
  let context: BrowserContext;
  /** Another picture for each test, because known bytes are not created again. */
  let content: Buffer<ArrayBuffer>;
  let pictures = 0;

  beforeAll(async () => {
    const script = await bundle('support/browser-upload-page.js');
    pages = await servePages(
      `<!doctype html><meta charset='utf-8'><script type='module' src='/page.js'></script>`,
      () => ({ '/content': ['image/png', content], '/page.js': ['text/javascript', script] }),
    );
    house = await startService({ MDS_UPLOAD_ORIGINS: pages.url, MDS_ROLES: 'api' });
    if (browserPath !== null) browser = await launchBrowser(browserPath);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    pages?.close();
    await house?.stop();
  });

  async function openPage(): Promise<Page> {
    if (!browser) throw new Error('There is no browser.');
    content = noisePng(`browser ${pictures++}`, 960, 720);
    context = await browser.newContext();
    return showPage();
  }

  async function showPage(): Promise<Page> {
    const page = await context.newPage();
    await page.goto(pages.url);
    return page;
  }

  async function expectArrived(id: string | null | undefined): Promise<void> {
    const { sha256, bytes } = await house.client.control.media.get(String(id));
    expect([sha256, bytes]).toEqual([createHash('sha256').update(content).digest('hex'), content.length]);
  }

  const call = (name: string, serviceUrl: string, ...rest: unknown[]) =>
    `${name}(${[serviceUrl, house.token, ...rest].map((it) => JSON.stringify(it)).join(', ')})`;

  inBrowser('the client uploads a File byte-exact over a network that is cut repeatedly', async () => {
    const page = await openPage();
    await using network = await startCuttingProxy(house.url, [900 * KIB, 400 * KIB, 400 * KIB]);
    const uploaded = await page.evaluate<Uploaded>(call('uploadByClient', network.url, {}));
    expect(uploaded).toMatchObject({ created: true });
    expect(network.cuts()).toBe(3);
    await expectArrived(uploaded.id);
    const all = { sentBytes: content.length, acceptedBytes: content.length, totalBytes: content.length };
    expect(uploaded.reports.at(-1)).toEqual(all);
    await context.close();
  });

  inBrowser('the client uploads a stream of unknown length over a network that is cut', async () => {
    const page = await openPage();
    await using network = await startCuttingProxy(house.url, [900 * KIB, 400 * KIB]);
    const options = { streamed: true, chunkBytes: 500 * KIB };
    const uploaded = await page.evaluate<Uploaded>(call('uploadByClient', network.url, options));
    await expectArrived(uploaded.id);
    await context.close();
  });

  inBrowser('a stalled connection is closed after the time limit, and the upload continues', async () => {
    const page = await openPage();
    await using network = await startCuttingProxy(house.url, [900 * KIB], true);
    const uploaded = await page.evaluate<Uploaded>(call('uploadByClient', network.url, { timeoutMs: 5_000 }));
    expect(network.cuts()).toBe(1);
    await expectArrived(uploaded.id);
    await context.close();
  });

  inBrowser('a page continues the upload of another page by its resumeKey', async () => {
    const page = await openPage();
    const options = { resumeKey: 'noise', chunkBytes: 256 * KIB };
    const stopped = await page.evaluate<Uploaded>(call('uploadByClient', house.url, { ...options, stopAt: 700 * KIB }));
    expect(stopped).toMatchObject({ error: 'Error: stopped', kept: 1 });
    await page.close();

    const later = await showPage();
    const methods: string[] = [];
    later.on('request', (request) => methods.push(request.method()));
    const uploaded = await later.evaluate<Uploaded>(call('uploadByClient', house.url, options));
    expect(methods).not.toContain('POST');
    expect(uploaded.reports[0]?.acceptedBytes).toBeGreaterThanOrEqual(700 * KIB);
    expect(uploaded.kept).toBe(0);
    await expectArrived(uploaded.id);
    await context.close();
  });

  inBrowser('a page gets the problem code of a refusal', async () => {
    const page = await openPage();
    content = Buffer.from('just text, and no picture');
    const uploaded = await page.evaluate<Uploaded>(call('uploadByClient', house.url, {}));
    expect(uploaded).toMatchObject({ code: 'unsupported_format' });
    expect(uploaded.error).toContain('InvalidRequestError');
    await context.close();
  });

  inBrowser('tus-js-client uploads over a network that is cut', async () => {
    const page = await openPage();
    await using network = await startCuttingProxy(house.url, [900 * KIB, 400 * KIB]);
    await expectArrived(await page.evaluate<string>(call('uploadByTus', network.url)));
    expect(network.cuts()).toBe(2);
    await context.close();
  });

  inBrowser("Uppy's tus plugin uploads over a network that is cut", async () => {
    const page = await openPage();
    await using network = await startCuttingProxy(house.url, [900 * KIB, 400 * KIB]);
    const { id, ...result } = await page.evaluate<{ id: string | null; successful: number; failed: unknown[] }>(
      call('uploadByUppy', network.url),
    );
    expect(result).toEqual({ successful: 1, failed: [] });
    expect(network.cuts()).toBe(2);
    await expectArrived(id);
    await context.close();
  });

  inBrowser('a page of an untrusted origin uploads nothing', async () => {
    const page = await openPage();
    const stranger = await startService({ MDS_ROLES: 'api' });
    try {
      const uploaded = await page.evaluate<Uploaded>(
        `uploadByClient(${JSON.stringify(stranger.url)}, ${JSON.stringify(stranger.token)}, { maxRetries: 0 })`,
      );
      expect(uploaded.error).toContain('ConnectionError');
      expect((await stranger.client.media.list()).data).toEqual([]);
    } finally {
      await stranger.stop();
    }
    await context.close();
  });
});

async function bundle(script: string): Promise<Uint8Array> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(script, import.meta.url))],
    ...{ bundle: true, format: 'esm', platform: 'browser', write: false, conditions: ['@mds/source'] },
    logLevel: 'error',
  });
  const [file] = outputFiles;
  if (!file) throw new Error('esbuild made no file.');
  return file.contents;
}
