// `npm run demo`: runs the whole service on real pictures, a video and an audio file. `-- --once` checks everything and exits.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ensureBuilt, ensureInstalled, main, ROOT, run } from './workspace.mjs';

const READS = [
  '/api/v1',
  ...['media', 'regions', 'assets', 'status', 'formats', 'renditions'].map((r) => `/api/v1/${r}`),
];
/** The renditions of each kind that a browser shows best. HLS plays in Safari, elsewhere with hls.js or any player. */
const SHOWN = {
  image: ['medium.webp'],
  video: ['mp4.mp4', 'hls.m3u8', 'preview.webp'],
  audio: ['audio.m4a', 'waveform.webp'],
};
const once = process.argv.includes('--once');
const unknown = process.argv.slice(2).filter((argument) => argument !== '--once');
const say = (text = '') => process.stdout.write(`${text}\n`);
const bold = (text) => (process.stdout.isTTY && !process.env.NO_COLOR ? `\u001b[1m${text}\u001b[0m` : text);

await main(async () => {
  if (unknown.length > 0) throw new Error(`npm run demo takes --once alone, not ${unknown.join(' ')}.`);
  await ensureInstalled();
  await ensureBuilt();

  const dataDir = mkdtempSync(join(tmpdir(), 'mds-demo-'));
  const service = startService(dataDir);
  let stopping = false;
  const stop = async () => {
    stopping = true;
    if (service.child.exitCode === null) {
      service.child.kill('SIGTERM');
      await service.ended;
    }
    rmSync(dataDir, { recursive: true, force: true });
  };
  // Ctrl-C reaches every process of the group. This one waits for the service and cleans up.
  let interrupted;
  const interruption = new Promise((resolve) => {
    interrupted = resolve;
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => interrupted('interrupted'));
  const died = service.ended.then((code) => {
    if (!stopping) throw new Error(`The service ended early, with ${code}.`);
  });

  try {
    const work = demonstrate(service, dataDir);
    // An interrupt makes this fail, too.
    work.catch(() => undefined);
    if ((await Promise.race([work, interruption, died])) === 'interrupted') {
      process.exitCode = 130;
      return;
    }
    if (once) return;
    say(bold('Serving until Ctrl-C.'));
    await Promise.race([interruption, died]);
  } finally {
    await stop();
  }
});

/** Starts the built service on a free port with its own data folder. */
function startService(dataDir) {
  const child = spawn(process.execPath, [`${ROOT}apps/server/dist/main.js`], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, MDS_HOST: '127.0.0.1', MDS_PORT: '0', MDS_DATA_DIR: dataDir, MDS_LOG_LEVEL: 'warn' },
  });
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code)));
  const url = new Promise((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const message = JSON.parse(line);
      if (message.event === 'listening') resolve(message.url);
    });
  });
  return { child, ended, url };
}

async function demonstrate(service, dataDir) {
  const url = await service.url;
  const token = readFileSync(join(dataDir, 'control-token'), 'utf8').trim();
  const cli = (...args) =>
    run(process.execPath, [`${ROOT}apps/cli/dist/main.js`, ...args], {
      // The state of the command line is removed with the demo.
      env: { ...process.env, MDS_URL: url, MDS_TOKEN: token, XDG_STATE_HOME: join(dataDir, 'state') },
    });

  say(`\n${bold('The service')} is up at ${url}, its data in ${dataDir}\n`);
  say(bold('$ mds ingest --wait samples'));
  await cli('ingest', '--wait', 'samples');
  say(`\n${bold('$ mds media list')}`);
  await cli('media', 'list');

  const media = await check(url, token);
  if (once) return;
  say(`\n${bold('Look at them')} (any browser, no token):`);
  for (const { filename, kind, renditions } of media) {
    const ready = renditions.filter(({ state }) => state === 'ready');
    const shown = SHOWN[kind].flatMap(
      (path) => ready.find(({ name, extension }) => `${name}.${extension}` === path) ?? [],
    );
    for (const [index, { url }] of shown.entries()) say(`  ${(index === 0 ? (filename ?? '') : '').padEnd(22)} ${url}`);
  }
  const [first] = media;
  say(`  ${'all of the first'.padEnd(22)} ${url}/media/${first.id}/manifest.json`);
  say(`\n${bold('The read API')}, all seven endpoints:`);
  for (const path of READS) say(`  curl ${url}${path}`);
  say(
    `\n${bold('API reference')}: ${url}/docs    ${bold('Add a file')}: curl -H "Authorization: Bearer $(cat ${join(dataDir, 'control-token')})" --data-binary @FILE ${url}/control/v1/media\n`,
  );
}

/** Reads a rendition to its end: a file, or an HLS presentation with all its playlists and segments (RFC 8216). */
async function deliver(url, get) {
  const caches = [];
  const seen = new Set();
  let bytes = 0;
  const read = async (address) => {
    const { pathname } = new URL(address);
    // A playlist has a short-lived URL and an immutable one: the same file.
    const file = pathname.replace(/\.[0-9a-f]{8}\//, '/');
    if (seen.has(file)) return null;
    seen.add(file);
    const response = await get(address);
    const body = Buffer.from(await response.arrayBuffer());
    bytes += body.length;
    caches.push(response.headers.get('x-cache'));
    if (pathname.endsWith('.m3u8')) {
      const attributes = [...body.toString().matchAll(/URI="([^"]+)"/g)].map(([, uri]) => uri);
      const lines = body
        .toString()
        .split('\n')
        .filter((line) => line !== '' && !line.startsWith('#'));
      for (const uri of [...attributes, ...lines]) await read(new URL(uri, address).href);
    }
    return response.headers.get('content-type');
  };
  const contentType = await read(url);
  return { bytes, contentType, caches };
}

/** Checks over HTTP that every media object is ready, every rendition is delivered, and every endpoint answers. */
async function check(url, token) {
  const get = async (path, headers = {}) => {
    const response = await fetch(new URL(path, url), { headers });
    if (response.status !== 200) throw new Error(`GET ${path} answered ${response.status}: ${await response.text()}`);
    return response;
  };
  const detail = await (await get('/control/v1/media?limit=100', { authorization: `Bearer ${token}` })).json();
  const notReady = detail.data.filter(({ status }) => status !== 'ready');
  if (detail.data.length === 0 || notReady.length > 0) {
    throw new Error(
      `Not every media object is ready: ${JSON.stringify(notReady.map(({ id, status, error }) => ({ id, status, error })))}`,
    );
  }
  let delivered = 0;
  for (const mediaObject of detail.data) {
    const first = [];
    for (const rendition of mediaObject.renditions.filter(({ state }) => state === 'ready')) {
      for (const again of [false, true]) {
        const { bytes, contentType, caches } = await deliver(rendition.url, get);
        if (!again) first.push(caches[0]);
        const right = bytes === rendition.bytes && contentType === rendition.content_type;
        if (!right || (again && caches.some((cache) => cache !== 'HIT'))) {
          throw new Error(
            `${rendition.url} answered ${bytes} bytes, ${caches}; ${rendition.bytes} bytes${again ? ' and HIT' : ''} were expected.`,
          );
        }
      }
      delivered += 1;
    }
    // Only the first: renditions of a small picture have the same bytes, and the cache identifies objects by their bytes.
    if (first[0] !== 'MISS') throw new Error(`The first delivery of ${mediaObject.id} was a ${first[0]}.`);
  }
  const answers = Object.fromEntries(
    await Promise.all(READS.map(async (path) => [path, await (await get(path)).json()])),
  );
  if (answers['/api/v1/media'].data.length !== detail.data.length) throw new Error('The media list is incomplete.');
  if (answers['/api/v1/status'].status !== 'operational')
    throw new Error(`Status: ${JSON.stringify(answers['/api/v1/status'])}`);
  say(
    `\nChecked: ${detail.data.length} media ready, ${delivered} renditions delivered (from the store, then from the cache), ${READS.length} endpoints answer.`,
  );
  return detail.data;
}
