import { appendFile, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { createClient } from '@mds/client';
import { expect, it } from 'vitest';
import { noisePng } from '../../server/test/support/pictures.ts';
import { spawnService } from '../../server/test/support/service-process.ts';
import { mdsHere, plain, start, temporaryFolder } from './run-cli.ts';
import { startService, TOKEN } from './scripted-service.ts';

/** A slow connection to a service, which counts the bytes. */
async function slowLine(url: string, bytesPerSecond: number) {
  const line = { url: '', sentBytes: 0, bytesPerSecond, close: () => undefined as unknown };
  const target = new URL(url);
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    far.pipe(near);
    near.on('data', (piece) => {
      line.sentBytes += piece.byteLength;
      far.write(piece);
      near.pause();
      setTimeout(() => near.resume(), (piece.byteLength / line.bytesPerSecond) * 1000);
    });
    near.on('close', () => far.destroy()).on('error', () => far.destroy());
    far.on('close', () => near.destroy()).on('error', () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  line.url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  line.close = () => server.close();
  return line;
}

async function setUp() {
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  const service = await spawnService({ dataDir: at('data'), env: { MDS_ROLES: 'api' } });
  const line = await slowLine(service.url, 8_000_000);
  const picture = noisePng(1, 2_600, 2_600);
  await writeFile(at('large.png'), picture);
  return {
    ...{ at, line, picture },
    run: (args: string[]) => {
      const env = { MDS_URL: line.url, MDS_TOKEN: service.token, XDG_STATE_HOME: at('state') };
      return start(args, { cwd: folder.path, env, stdin: '' });
    },
    client: createClient({ baseUrl: service.url, token: service.token }),
    async [Symbol.asyncDispose]() {
      line.close();
      await service.end('SIGKILL');
      await folder[Symbol.asyncDispose]();
    },
  };
}

it('a large upload that was killed half-way resumes in the next run', {
  timeout: 240_000,
}, async () => {
  await using it = await setUp();
  const first = it.run(['ingest', 'large.png']);
  await expect.poll(() => it.line.sentBytes, { timeout: 60_000 }).toBeGreaterThan(it.picture.byteLength * 0.6);
  first.kill('SIGKILL');
  await first.done;
  it.line.sentBytes = 0;
  it.line.bytesPerSecond = 80_000_000;
  const { code, stderr } = await it.run(['ingest', 'large.png']).done;
  expect([code, stderr]).toEqual([
    0,
    expect.stringMatching(/^large\.png resumes at [\d.]+ MB\.\n1 file: 1 created\n$/),
  ]);
  expect(it.line.sentBytes).toBeLessThan(it.picture.byteLength * 0.6);
  const { data } = await it.client.control.media.list();
  expect(data).toMatchObject([{ bytes: it.picture.byteLength, filename: 'large.png' }]);
});

it('a file that is written to during its upload makes no media object', { timeout: 240_000 }, async () => {
  await using it = await setUp();
  const running = it.run(['ingest', 'large.png']);
  await expect.poll(() => it.line.sentBytes, { timeout: 60_000 }).toBeGreaterThan(it.picture.byteLength * 0.3);
  // Longer by one chunk, as a scanner writes it. The first part already is a complete picture.
  await appendFile(it.at('large.png'), 'more');
  it.line.bytesPerSecond = 80_000_000;
  const { code, stdout } = await running.done;
  expect([code, stdout]).toEqual([1, expect.stringContaining('The file changed while it was read. (file_changed)')]);
  expect((await it.client.control.media.list()).data).toEqual([]);
});

it('Ctrl-C in a large file reports what the service keeps and how to resume', { timeout: 240_000 }, async () => {
  await using it = await setUp();
  const running = it.run(['--json', 'ingest', 'large.png']);
  await expect.poll(() => it.line.sentBytes, { timeout: 60_000 }).toBeGreaterThan(it.picture.byteLength * 0.3);
  running.kill('SIGINT');
  const { code, stderr } = await running.done;
  expect(code).toBe(130);
  expect(JSON.parse(stderr)).toMatchObject({
    error: {
      message: 'Interrupted.',
      hints: [
        expect.stringMatching(
          /^large\.png: about [\d.]+ MB of 20\.\d MB are kept; run the same command to resume there\.$/,
        ),
      ],
    },
  });
});

it('a file that the earlier run sent completely is shown as already sent', { timeout: 60_000 }, async () => {
  await using service = await startService();
  await using folder = await temporaryFolder();
  const bytes = 17 * 1024 * 1024;
  await writeFile(join(folder.path, 'large.png'), Buffer.alloc(bytes));
  let received = 0;
  service.on('POST /control/v1/uploads', (request, response) => {
    request.resume();
    response.writeHead(201, { 'tus-resumable': '1.0.0', location: '/control/v1/uploads/upl_1' }).end();
  });
  // Never answers, as if it were still storing.
  service.on('PATCH', async (request) => {
    for await (const piece of request as AsyncIterable<Buffer>) received += piece.byteLength;
  });
  let asked = false;
  service.on('HEAD', () => {
    asked = true;
  });
  const env = { MDS_URL: service.url, MDS_TOKEN: TOKEN, XDG_STATE_HOME: join(folder.path, 'state') };
  const run = async (until: () => boolean) => {
    const ctrlC = new AbortController();
    const running = mdsHere(['ingest', 'large.png'], { cwd: folder.path, env, terminal: 80, interrupt: ctrlC.signal });
    await expect.poll(until, { timeout: 30_000 }).toBe(true);
    // The display is drawn ten times a second.
    await new Promise((resolve) => setTimeout(resolve, 500));
    ctrlC.abort();
    return plain((await running).stderr);
  };
  expect(await run(() => received === bytes)).toContain(
    'large.png: all 17.8 MB are sent; run the same command to wait for it.',
  );
  const again = await run(() => asked);
  expect(again).toContain('large.png was already sent and is being stored.');
  expect(again).toMatch(/large\.png +already sent, storing/);
  expect(again).not.toContain('0%');
});
