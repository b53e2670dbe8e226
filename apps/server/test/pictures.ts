import { crc32, deflateSync } from 'node:zlib';

/** A PNG, 8-bit RGB, of coloured blocks and a gradient that `seed` decides: no two seeds give the same bytes. */
export function png(seed: number, width = 64, height = 48): Buffer<ArrayBuffer> {
  const row = 1 + width * 3;
  const pixels = Buffer.alloc(row * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * row + 1 + x * 3;
      const block = ((x >> 3) * 31 + (y >> 3) * 17 + seed * 101) & 0xff;
      pixels[at] = block;
      pixels[at + 1] = Math.round((x / width) * 255);
      pixels[at + 2] = Math.round((y / height) * 255);
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const label = Buffer.from(`Comment\0picture ${seed}`, 'latin1');
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('tEXt', label),
    chunk('IDAT', deflateSync(pixels)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body) >>> 0, body.length + 4);
  return out;
}
