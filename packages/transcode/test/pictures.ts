import { crc32, deflateSync } from 'node:zlib';
import { sharp } from '../src/vips.ts';

export type Color = readonly [number, number, number];
export const red: Color = [255, 0, 0];
export const green: Color = [0, 255, 0];
export const blue: Color = [0, 0, 255];
export const white: Color = [255, 255, 255];

/** Raw pixels of an image in four colours: top left, top right, bottom left, bottom right. */
export function quarters(width: number, height: number, colors: readonly Color[] = [red, green, blue, white]) {
  const data = Buffer.alloc(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const color = colors[(y * 2 >= height ? 2 : 0) + (x * 2 >= width ? 1 : 0)] ?? white;
      data.set(color, (y * width + x) * 3);
    }
  }
  return sharp(data, { raw: { width, height, channels: 3 } });
}

/** Colours at the centres of the four quarters of a file, in the same order; with alpha if it has any. */
export async function quarterColors(file: string | Buffer): Promise<number[][]> {
  const { data, info } = await sharp(file).raw().toBuffer({ resolveWithObject: true });
  return [
    [0.25, 0.25],
    [0.75, 0.25],
    [0.25, 0.75],
    [0.75, 0.75],
  ].map(([x = 0, y = 0]) => {
    const at = (Math.floor(y * info.height) * info.width + Math.floor(x * info.width)) * info.channels;
    return [...data.subarray(at, at + info.channels)];
  });
}

/** The largest difference in any channel of any colour. */
export function furthest(actual: readonly (readonly number[])[], expected: readonly (readonly number[])[]): number {
  return Math.max(
    ...expected.flatMap((color, index) =>
      color.map((value, channel) => Math.abs(value - (actual[index]?.[channel] ?? -1_000))),
    ),
  );
}

/** A PNG chunk. */
export function pngChunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const chunk = Buffer.alloc(body.length + 8);
  chunk.writeUInt32BE(data.length, 0);
  body.copy(chunk, 4);
  chunk.writeUInt32BE(crc32(body), body.length + 4);
  return chunk;
}

/** A grey PNG of any size in very few bytes, like a decompression bomb. */
export function flatPng(width: number, height: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8;
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    pngChunk('IHDR', header),
    pngChunk('IDAT', deflateSync(Buffer.alloc((width + 1) * height), { level: 1 })),
    pngChunk('IEND', Buffer.alloc(0)),
  ]);
}

/** A PNG with an additional chunk after its header. */
export function withPngChunk(png: Buffer, type: string, data: Uint8Array): Buffer {
  return Buffer.concat([png.subarray(0, 33), pngChunk(type, data), png.subarray(33)]);
}

/** An animated GIF of solid frames in two colours, written block by block; `delay` is in hundredths of a second. */
export function solidGif(size: number, frames: number, delay = 10, loops = 0): Buffer {
  const u16 = (value: number) => [value & 255, value >> 8];
  const head = Buffer.from([
    ...Buffer.from('GIF89a'),
    ...u16(size),
    ...u16(size),
    0x80,
    0,
    0,
    255,
    0,
    0,
    0,
    0,
    255,
    0x21,
    0xff,
    11,
    ...Buffer.from('NETSCAPE2.0'),
    3,
    1,
    ...u16(loops),
    0,
  ]);
  const frame = (color: number) =>
    Buffer.from([
      0x21,
      0xf9,
      4,
      0,
      ...u16(delay),
      0,
      0,
      0x2c,
      ...u16(0),
      ...u16(0),
      ...u16(size),
      ...u16(size),
      0,
      2,
      ...subBlocks(uncompressedLzw(size * size, color)),
      0,
    ]);
  const both = [frame(0), frame(1)];
  return Buffer.concat([
    head,
    ...Array.from({ length: frames }, (_, index) => both[index % 2] ?? head),
    Buffer.from([0x3b]),
  ]);
}

/** LZW with a clear code before every two pixels, so that codes stay three bits wide. */
function uncompressedLzw(pixels: number, color: number): number[] {
  const codes: number[] = [];
  for (let pixel = 0; pixel < pixels; pixel += 2) codes.push(4, color, ...(pixel + 1 < pixels ? [color] : []));
  codes.push(5);
  const bytes: number[] = [];
  let bits = 0;
  let held = 0;
  for (const code of codes) {
    held |= code << bits;
    bits += 3;
    while (bits >= 8) {
      bytes.push(held & 255);
      held >>= 8;
      bits -= 8;
    }
  }
  bytes.push(held & 255);
  return bytes;
}

function subBlocks(bytes: number[]): number[] {
  const blocks: number[] = [];
  for (let at = 0; at < bytes.length; at += 255)
    blocks.push(Math.min(255, bytes.length - at), ...bytes.slice(at, at + 255));
  return blocks;
}

/** Numbers from 0 to below 1 that are the same in every run. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
