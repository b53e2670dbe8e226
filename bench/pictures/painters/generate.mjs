// Makes the samples that `npm run demo` ingests: node bench/pictures/painters/generate.mjs [NAME…]
// Seeded: the same versions of the encoders write the same bytes. The results are committed, so run it only to change a sample.
// The HEIC needs `heif-enc` (libheif); the film and the audio need `ffmpeg`.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import sharp from 'sharp';
import { paintAurora } from './aurora.mjs';
import { composeChimes } from './chimes.mjs';
import { paintCity } from './city.mjs';
import { drawBadge, drawLoaderFrame, drawPoster } from './drawings.mjs';
import { paintDunes } from './dunes.mjs';
import { paintLandscape } from './landscape.mjs';
import { paintSilk } from './silk.mjs';

const folder = fileURLToPath(new URL('../../../samples/', import.meta.url));
const at = (/** @type {string} */ name) => join(folder, name);

/** Pixels as a sharp image. */
function picture(paint, width, height) {
  return sharp(paint({ width, height }), { raw: { width, height, channels: 3 } });
}

/** Runs ffmpeg and feeds it pieces as fast as it takes them. */
async function encode(args, pieces) {
  const ffmpeg = spawn('ffmpeg', ['-hide_banner', '-loglevel', 'error', '-y', ...args], {
    stdio: ['pipe', 'inherit', 'inherit'],
  });
  const ended = once(ffmpeg, 'exit');
  for (const piece of pieces) if (!ffmpeg.stdin.write(piece)) await once(ffmpeg.stdin, 'drain');
  ffmpeg.stdin.end();
  const [code] = await ended;
  if (code !== 0) throw new Error(`ffmpeg ended with ${code}.`);
}

const film = { width: 1280, height: 720, frameRate: 24, seconds: 8 };

/** Northern lights that fade in from darkness: a poster must not be taken from the start. */
function* filmFrames({ width, height, frameRate, seconds }) {
  for (let frame = 0; frame < frameRate * seconds; frame++) {
    const at = frame / frameRate;
    const exposure = 1.15 * Math.min(1, Math.max(0, at - 0.4)) ** 1.5;
    yield paintAurora({ width, height, seconds: at, grain: 0, exposure });
  }
}

const samples = {
  // Stored rotated, with EXIF orientation 6 and a location, as telephones do.
  'mountain-lake.jpg': (file) =>
    picture(paintLandscape, 2400, 1600)
      .rotate(270)
      .withExif({
        IFD0: { Make: 'MDS', Model: 'Sample generator', Copyright: 'MIT License' },
        IFD2: { DateTimeOriginal: '2026:01:31 17:15:00' },
        IFD3: {
          GPSLatitudeRef: 'N',
          GPSLatitude: '46/1 32/1 5316/100',
          GPSLongitudeRef: 'E',
          GPSLongitude: '7/1 58/1 4620/100',
        },
      })
      .withMetadata({ orientation: 6 })
      .jpeg({ quality: 90, mozjpeg: true })
      .toFile(file),
  'aurora.webp': (file) => picture(paintAurora, 1600, 1000).webp({ quality: 82, effort: 6 }).toFile(file),
  'city-night.avif': (file) => picture(paintCity, 1600, 1000).avif({ quality: 62, effort: 6 }).toFile(file),
  'silk-p3.jpg': (file) =>
    // The values already are Display P3: the profile is attached, nothing is converted.
    picture(paintSilk, 1600, 1067)
      .jpeg({ quality: 86, mozjpeg: true, chromaSubsampling: '4:4:4' })
      .withIccProfile('p3')
      .toFile(file),
  'portrait-poster.png': (file) =>
    sharp(Buffer.from(drawPoster())).png({ compressionLevel: 9, effort: 10, palette: true, quality: 95 }).toFile(file),
  'loader.gif': async (file) => {
    const count = 36;
    const frames = Array.from({ length: count }, (_, i) => Buffer.from(drawLoaderFrame(i, count)));
    await sharp(frames, { join: { animated: true } })
      .gif({ delay: frames.map(() => 40), loop: 0, effort: 10 })
      .toFile(file);
  },
  'badge.svg': (file) => writeFile(file, drawBadge()),
  'northern-lights.mp4': async (file) => {
    const scratch = await mkdtemp(join(tmpdir(), 'mds-samples-'));
    try {
      const { sampleRate, channels, seconds, pcm } = composeChimes({ seconds: film.seconds, seed: 3 });
      const sound = join(scratch, 'sound.raw');
      await writeFile(sound, pcm);
      await encode(
        [
          ...['-f', 'rawvideo', '-pix_fmt', 'rgb24', '-s', `${film.width}x${film.height}`, '-r', `${film.frameRate}`],
          ...['-i', 'pipe:0'],
          ...['-f', 's16le', '-ar', `${sampleRate}`, '-ac', `${channels}`, '-i', sound, '-t', `${seconds}`],
          ...['-c:v', 'libx264', '-preset', 'veryslow', '-crf', '25', '-pix_fmt', 'yuv420p', '-g', '96'],
          ...['-c:a', 'aac', '-b:a', '96k', '-movflags', '+faststart', '-fflags', '+bitexact'],
          file,
        ],
        filmFrames(film),
      );
    } finally {
      await rm(scratch, { recursive: true });
    }
  },
  'chimes.flac': (file) => {
    const { sampleRate, channels, pcm } = composeChimes({ seconds: 12, seed: 7 });
    const format = ['-f', 's16le', '-ar', `${sampleRate}`, '-ac', `${channels}`];
    const tags = ['-metadata', 'title=Chimes', '-metadata', 'artist=Media Delivery Service'];
    return encode(
      [...format, '-i', 'pipe:0', '-compression_level', '12', ...tags, '-fflags', '+bitexact', file],
      [pcm],
    );
  },
  'dunes.heic': async (file) => {
    const scratch = await mkdtemp(join(tmpdir(), 'mds-samples-'));
    try {
      const source = join(scratch, 'dunes.png');
      await picture(paintDunes, 1600, 1067).png().toFile(source);
      await promisify(execFile)('heif-enc', ['-q', '55', '-o', file, source]);
    } finally {
      await rm(scratch, { recursive: true });
    }
  },
};

const wanted = process.argv.slice(2);
for (const [name, make] of Object.entries(samples)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  await make(at(name));
  const { size } = await stat(at(name));
  console.log(`${name.padEnd(22)} ${String(Math.round(size / 1024)).padStart(5)} KiB`);
}
