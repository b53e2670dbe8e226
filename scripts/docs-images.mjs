// `npm run docs:images`: makes the pictures in docs/images again from what the demo prints and its service delivers.
// docs/images/hit-ratio.svg is not among them: `npm run simulate` draws it.
import { spawn } from 'node:child_process';
import { accessSync, constants, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ensureBuilt, ensureInstalled, main, ROOT } from './workspace.mjs';

const IMAGES = `${ROOT}docs/images/`;
const COLUMNS = 120;
/** The demo as far as its first section of addresses; sections are separated by empty lines. */
const DEMO_SECTIONS = 5;
const DEMO_DEADLINE_MS = 5 * 60_000;
/** The largest samples first, so that the first row shows what renditions save. */
const CARDS = [
  ...['mountain-lake.jpg', 'city-night.avif', 'aurora.webp', 'dunes.heic'],
  ...['silk-p3.jpg', 'portrait-poster.png', 'badge.svg', 'loader.gif'],
];
const RENDITIONS = ['thumb.webp', 'small.webp', 'medium.webp', 'medium.avif', 'medium.jpg', 'large.webp'];
/** Files that the service delivers and the docs show as they are. */
const DELIVERED = [
  ['northern-lights.mp4', 'poster.webp', 'northern-lights-poster.webp'],
  ['northern-lights.mp4', 'storyboard.jpg', 'northern-lights-storyboard.jpg'],
  ['chimes.flac', 'waveform.webp', 'chimes-waveform.webp'],
];

await main(async () => {
  await ensureInstalled();
  const chromium = findProgram('CHROMIUM_PATH', ['chromium', 'chromium-browser', 'google-chrome'], 'Chromium');
  const script = findProgram('SCRIPT_PATH', ['script'], '`script` of util-linux (it opens a pseudo terminal)');
  await ensureBuilt();

  const demo = startDemo(script);
  try {
    const { url, token } = await demo.ready;
    const media = await listMedia(url, token);
    for (const [filename, rendition, image] of DELIVERED) {
      const response = await fetchOk(readyRendition(media, filename, rendition).url);
      save(image, Buffer.from(await response.arrayBuffer()));
    }
    await takeScreenshots(chromium, url, media, withoutServiceLog(demo.lines()));
  } finally {
    await demo.stop();
  }
});

/** The first of `names` on PATH, or the program that the environment variable names. @throws a sentence with what to install */
function findProgram(variable, names, title) {
  const named = process.env[variable];
  const candidates = named
    ? [named]
    : names.flatMap((name) => (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, name)));
  const found = candidates.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  if (found) return found;
  const looked = named ? `${variable}=${named} is not a program` : `none of ${names.join(', ')} is on PATH`;
  throw new Error(`The pictures need ${title}: ${looked}. Install it, or set ${variable} to its path.`);
}

/** `npm run demo` in a pseudo terminal: tables and colours appear only there. */
function startDemo(script) {
  const command = `stty rows 100 cols ${COLUMNS}; exec "$NODE_PROGRAM" scripts/demo.mjs`;
  const { NO_COLOR, ...env } = process.env;
  const child = spawn(script, ['-qec', command, '/dev/null'], {
    cwd: ROOT,
    // Warnings of npm about this machine's settings do not belong in the picture.
    env: { ...env, NODE_PROGRAM: process.execPath, TERM: 'xterm-256color', npm_config_loglevel: 'error' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  const ended = new Promise((resolve) => {
    child.once('error', resolve);
    child.once('exit', resolve);
  });
  const waitUntilServing = async () => {
    for (const deadline = Date.now() + DEMO_DEADLINE_MS; !output.includes('Ctrl-C'); await delay(200)) {
      if (child.exitCode !== null || Date.now() > deadline) throw new Error(`The demo did not get ready:\n${output}`);
    }
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(output)?.[0];
    const dataDir = /\S*mds-demo-\w+/.exec(output)?.[0];
    if (!url || !dataDir) throw new Error(`The demo prints no address or data folder:\n${output}`);
    return { url, token: readFileSync(join(dataDir, 'control-token'), 'utf8').trim() };
  };
  return {
    ready: waitUntilServing(),
    lines: () => screenLines(output),
    async stop() {
      if (child.exitCode === null) child.stdin.write('\u0003');
      await ended;
    },
  };
}

async function fetchOk(url, headers = {}) {
  const response = await fetch(url, { headers });
  if (!response.ok) throw new Error(`GET ${url} returned ${response.status}: ${await response.text()}`);
  return response;
}

async function listMedia(url, token) {
  const response = await fetchOk(`${url}/control/v1/media?limit=100`, { authorization: `Bearer ${token}` });
  return (await response.json()).data;
}

function findMedia(media, filename) {
  const found = media.find((each) => each.filename === filename);
  if (!found) throw new Error(`The demo did not ingest ${filename}.`);
  return found;
}

function findRendition({ renditions }, file) {
  return renditions.find(({ name, extension }) => `${name}.${extension}` === file);
}

function readyRendition(media, filename, file) {
  const rendition = findRendition(findMedia(media, filename), file);
  if (rendition?.state !== 'ready') throw new Error(`${filename} has no rendition ${file} that is ready.`);
  return rendition;
}

function save(name, bytes) {
  writeFileSync(`${IMAGES}${name}`, bytes);
  console.log(`docs/images/${name}  ${shownBytes(bytes.length)}`);
}

async function takeScreenshots(executablePath, url, media, lines) {
  const { chromium } = createRequire(`${ROOT}apps/server/package.json`)('playwright-core');
  const sharp = createRequire(`${ROOT}packages/transcode/package.json`)('sharp');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--no-first-run'] });
  const savePng = async (name, png) =>
    save(name, await sharp(png).png({ palette: true, quality: 95, effort: 10 }).toBuffer());
  const shootElement = async (name, width, html, selector) => {
    const page = await browser.newPage({ viewport: { width, height: 800 }, deviceScaleFactor: 1.5 });
    await page.setContent(html, { waitUntil: 'networkidle' });
    await savePng(name, await page.locator(selector).screenshot({ omitBackground: true }));
    await page.close();
  };
  try {
    await shootElement('demo.png', 1400, terminalPage(firstSections(lines)), '.window');
    await shootElement('renditions.png', 1160, renditionsPage(media), 'main');
    await savePng('docs-page.png', await shootReference(browser, `${url}/docs`));
  } finally {
    await browser.close();
  }
}

/** The reference page at /docs, down to the last operation that fits. */
async function shootReference(browser, url) {
  const width = 1200;
  const height = 1250;
  const page = await browser.newPage({ viewport: { width, height } });
  await page.goto(url);
  await page.locator('.opblock').first().waitFor();
  const bottoms = await page
    .locator('.opblock')
    .evaluateAll((blocks) => blocks.map((block) => block.getBoundingClientRect().bottom));
  const last = Math.max(...bottoms.filter((bottom) => bottom < height));
  return page.screenshot({ clip: { x: 0, y: 0, width, height: Math.ceil(last) + 4 } });
}

/**
 * What a terminal shows after it was sent `output`: lines of cells with a character and a style. Progress bars move the
 * cursor up and erase lines, so that the bytes alone are not the picture (ECMA-48: CUU, CUD, CHA, CPL, EL, ED, SGR).
 */
function screenLines(output) {
  const lines = [[]];
  let row = 0;
  let column = 0;
  let style = '';
  const styles = new Set();
  const erase = (mode) => {
    lines[row] = mode === 2 ? [] : mode === 1 ? lines[row].fill(undefined, 0, column + 1) : lines[row].slice(0, column);
  };
  const control = (parameters, final) => {
    const first = Number.parseInt(parameters, 10);
    const count = first || 1;
    if (final === 'A') row = Math.max(0, row - count);
    else if (final === 'B') row += count;
    else if (final === 'G') column = count - 1;
    else if (final === 'F') {
      row = Math.max(0, row - count);
      column = 0;
    } else if (final === 'K') erase(first || 0);
    else if (final === 'J') {
      erase(0);
      lines.length = row + 1;
    } else if (final === 'm') {
      for (const code of (parameters || '0').split(';').map(Number)) {
        if (code === 0) styles.clear();
        else if (code === 22) for (const name of ['s1', 's2']) styles.delete(name);
        else if (code === 39) for (const name of [...styles]) name.length === 3 && styles.delete(name);
        else styles.add(`s${code}`);
      }
      style = [...styles].join(' ');
    }
    while (lines.length <= row) lines.push([]);
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control sequences are what a terminal is sent
  for (const [token, parameters, final] of output.matchAll(/\x1b\[([0-9;?]*)([A-Za-z])|./gsu)) {
    if (final) control(parameters, final);
    else if (token === '\n') {
      row += 1;
      if (lines.length <= row) lines.push([]);
    } else if (token === '\r') column = 0;
    else if (token >= ' ') {
      lines[row][column] = { character: token, style };
      column += 1;
    }
  }
  return lines.map((line) => Array.from(line, (cell) => cell ?? { character: ' ', style: '' }));
}

/** A busy machine makes the service log warnings into the demo's terminal. They are printed here instead. */
function withoutServiceLog(lines) {
  let inLog = false;
  return lines.filter((line) => {
    const text = line.map(({ character }) => character).join('');
    inLog = /^\[\d\d:\d\d:\d\d/.test(text) || (inLog && text.startsWith('    '));
    if (inLog) console.error(`left out of demo.png: ${text}`);
    return !inLog;
  });
}

/** Sections are separated by empty lines; the first lines may be empty, too. */
function firstSections(lines) {
  const isEmpty = (line) => line.every(({ character }) => character === ' ');
  const first = lines.findIndex((line) => !isEmpty(line));
  const shown = [];
  let sections = 0;
  for (const line of lines.slice(first)) {
    if (isEmpty(line)) sections += 1;
    if (sections === DEMO_SECTIONS) break;
    shown.push(line);
  }
  return shown;
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}

function lineHtml(line) {
  return line.map(({ character, style }) => `<span class="${style}">${escaped(character)}</span>`).join('');
}

function terminalPage(lines) {
  const prompt = [...'$ npm run demo'].map((character) => ({ character, style: 's1' }));
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; background: transparent; }
    .window { display: inline-block; border-radius: 10px; overflow: hidden; background: #0d1117; color: #c9d1d9;
      border: 1px solid #30363d; font: 14px/1.5 'DejaVu Sans Mono', Menlo, Consolas, monospace; }
    .bar { height: 36px; background: #161b22; border-bottom: 1px solid #30363d; display: flex; gap: 8px;
      align-items: center; padding-left: 14px; }
    .bar i { width: 12px; height: 12px; border-radius: 50%; }
    pre { margin: 0; padding: 18px 24px 22px; font: inherit; }
    .s1 { font-weight: bold; color: #f0f6fc; } .s2 { color: #8b949e; } .s31 { color: #ff7b72; } .s32 { color: #56d364; }
    .s33 { color: #e3b341; } .s34 { color: #79c0ff; } .s35 { color: #d2a8ff; } .s36 { color: #76e3ea; }
    .s90 { color: #8b949e; }
  </style><div class="window"><div class="bar"><i style="background:#ff5f57"></i><i style="background:#febc2e"></i><i
  style="background:#28c840"></i></div><pre>${[prompt, [], ...lines].map(lineHtml).join('\n')}</pre></div>`;
}

/** Decimal units with three digits, as `mds` prints them. */
function shownBytes(bytes) {
  const kilo = bytes / 1000;
  if (kilo >= 1000) return `${(kilo / 1000).toFixed(1)} MB`;
  return `${kilo < 100 ? kilo.toFixed(1) : kilo.toFixed(0)} kB`;
}

function renditionRow(rendition, file, largest) {
  if (rendition?.state !== 'ready') {
    // The reason's first clause: there is no room for more.
    const [clause = ''] = rendition?.reason?.split(/[,;.]/) ?? [];
    const reason = clause.charAt(0).toLowerCase() + clause.slice(1);
    return `<code>${file}</code><em>${rendition?.state ?? 'not made'}${reason && ': '}${escaped(reason)}</em>`;
  }
  const { width, height, bytes, extension } = rendition;
  return `<code>${file}</code><b>${width} × ${height}</b><b>${shownBytes(bytes)}</b><i class="${extension}"
    style="width:${Math.max(3, (100 * bytes) / largest)}%"></i>`;
}

function renditionsPage(media) {
  const cards = CARDS.map((filename) => {
    const one = findMedia(media, filename);
    const largest = Math.max(...one.renditions.map(({ bytes }) => bytes ?? 0));
    const shown = readyRendition(media, filename, 'medium.webp');
    const fit = one.width > 1.2 * one.height ? 'cover' : 'contain';
    return `<figure><div class="picture"><img src="${shown.url}" style="object-fit:${fit}"></div>
      <figcaption><strong>${filename}</strong><span>${one.width} × ${one.height} · ${shownBytes(one.bytes)}</span></figcaption>
      ${RENDITIONS.map((file) => `<div class="row">${renditionRow(findRendition(one, file), file, largest)}</div>`).join('')}
    </figure>`;
  });
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; background: #fff; color: #1f2328; font: 11px/1.5 'DejaVu Sans', Helvetica, sans-serif; }
    main { display: grid; grid-template-columns: repeat(4, 1fr); gap: 16px; padding: 16px; background: #fff; }
    figure { margin: 0; padding-bottom: 10px; border: 1px solid #d0d7de; border-radius: 8px; overflow: hidden; }
    .picture { height: 160px; background: #f6f8fa; border-bottom: 1px solid #d0d7de; display: flex; }
    .picture img { width: 100%; height: 100%; }
    figcaption { display: flex; justify-content: space-between; align-items: baseline; padding: 8px 10px 4px; }
    figcaption { white-space: nowrap; } figcaption strong { font-size: 12px; } figcaption span { font-size: 10px; }
    figcaption span, .row b { color: #57606a; font-weight: normal; }
    .row { display: grid; grid-template-columns: 68px 66px 44px 1fr; column-gap: 8px; align-items: center;
      padding: 1px 10px; white-space: nowrap; font-size: 10px; }
    .row b { text-align: right; } .row em { grid-column: 2 / 5; padding-left: 4px; font-size: 9px; color: #57606a; }
    code { font: 10px 'DejaVu Sans Mono', monospace; }
    .row i { display: block; height: 7px; border-radius: 2px; background: #8fb4ea; }
    .row i.avif { background: #d9a55c; } .row i.jpg { background: #9fc58f; }
  </style><main>${cards.join('')}</main>`;
}
