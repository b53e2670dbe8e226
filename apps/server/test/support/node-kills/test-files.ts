import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { makeClip } from '../clips.ts';
import { noisePng, png, withText } from '../pictures.ts';
import type { Random } from '../seeded-random.ts';

/** Files for the load, all different. */
export interface TestFiles {
  picture(): Buffer<ArrayBuffer>;
  /** Noise, so that it takes time to upload and to render. */
  largePicture(): Buffer<ArrayBuffer>;
  video(): Buffer<ArrayBuffer>;
  /** Serves a picture slowly at a URL. */
  offer(): { url: string; body: Buffer<ArrayBuffer> };
  stop(): Promise<void>;
}

/** Pictures of each size. The files differ in a text. */
const BASES = 6;

/** Presets: small and large pictures, and the poster and ladder of a video. */
export const KILL_PRESETS = [
  { name: 'thumb', container: 'webp', width: 32, height: 32 },
  // Several pieces if the image is noise.
  { name: 'large', container: 'jpeg', width: 1600, height: 1600, quality: 100 },
  { name: 'poster', container: 'jpeg', source_kinds: ['video'], width: 320, height: 320 },
  {
    ...{ type: 'hls', segment_seconds: 1, speed: 'ultrafast' },
    rungs: [
      { name: 'high', width: 426, height: 240, bitrate: 700_000 },
      { name: 'low', width: 320, height: 180, bitrate: 400_000 },
    ],
  },
];

export async function createTestFiles(random: Random): Promise<TestFiles> {
  const clip = await readFile(await makeClip({ width: 426, height: 240, seconds: 6, frameRate: 12, sound: true }));
  let made = 0;
  const next = () => (made += 1);
  const between = (from: number, to: number) => Math.round(from + random() * (to - from));
  const offered = new Map<string, Buffer>();
  const site = createServer((req, res) => {
    const body = offered.get(req.url ?? '') ?? Buffer.alloc(0);
    res.writeHead(body.length === 0 ? 404 : 200, { 'Content-Length': body.length });
    res.write(body.subarray(0, 100));
    const rest = setTimeout(() => res.end(body.subarray(100)), 200);
    res.on('close', () => clearTimeout(rest));
  });
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  const { port } = site.address() as AddressInfo;
  // Made once: the balancer of this process waits while it computes.
  const several = (make: (n: number) => Buffer) => Array.from({ length: BASES }, (_, n) => make(n));
  const pictures = several((n) => png(n, between(100, 600), between(100, 500)));
  const largePictures = several((n) => noisePng(n, between(650, 850), between(500, 600)));
  const another = (bases: readonly Buffer[]) => {
    const n = next();
    return withText(bases[n % BASES] ?? Buffer.alloc(0), `picture ${n}`);
  };
  return {
    picture: () => another(pictures),
    largePicture: () => another(largePictures),
    video: () => Buffer.concat([clip, freeBox(`film ${next()}`)]),
    offer() {
      const body = another(pictures);
      const path = `/${next()}.png`;
      offered.set(path, body);
      return { url: `http://127.0.0.1:${port}${path}`, body };
    },
    async stop() {
      site.closeAllConnections();
      await new Promise((resolve) => site.close(resolve));
    },
  };
}

/** A box of an MP4 file that players skip (ISO/IEC 14496-12, 8.1.2): another text makes another file of the same video. */
function freeBox(text: string): Buffer {
  const box = Buffer.alloc(8 + text.length);
  box.writeUInt32BE(box.length, 0);
  box.write(`free${text}`, 4, 'latin1');
  return box;
}
