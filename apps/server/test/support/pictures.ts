import { createHash } from 'node:crypto';
import { crc32, deflateSync } from 'node:zlib';

/** A PNG of coloured blocks and gradients that `seed` decides: no two seeds give the same bytes, one always the same. */
export function png(seed: number, width = 64, height = 48): Buffer<ArrayBuffer> {
  const row = 1 + width * 3;
  const rows = Buffer.alloc(row * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * row + 1 + x * 3;
      rows[at] = ((x >> 3) * 31 + (y >> 3) * 17 + seed * 101) & 0xff;
      rows[at + 1] = Math.round((x / width) * 255);
      rows[at + 2] = Math.round((y / height) * 255);
    }
  }
  return encode(width, height, rows, [chunk('tEXt', Buffer.from(`Comment\0picture ${seed}`, 'latin1'))]);
}

/** A PNG of coloured noise, which does not compress: its size is that of its pixels. */
export function noisePng(seed: number | string, width = 64, height = 48): Buffer<ArrayBuffer> {
  const row = 1 + width * 3;
  const rows = Buffer.alloc(row * height);
  let noise = Buffer.alloc(0);
  for (let at = 0; at < rows.length; at++) {
    if (at % 32 === 0) noise = createHash('sha256').update(`${seed}:${at}`).digest();
    // A row begins with its filter: 0, none.
    rows[at] = at % row === 0 ? 0 : (noise[at % 32] ?? 0);
  }
  return encode(width, height, rows, []);
}

/** The same image as another file: with a text chunk (RFC 2083, 4.2.3). Cheap if a test needs many files. */
export function withText(picture: Buffer, text: string): Buffer<ArrayBuffer> {
  const end = picture.length - chunk('IEND', Buffer.alloc(0)).length;
  const comment = chunk('tEXt', Buffer.from(`Comment\0${text}`, 'latin1'));
  return Buffer.concat([picture.subarray(0, end), comment, picture.subarray(end)]);
}

/** 8-bit RGB (RFC 2083); each row begins with its filter byte. */
function encode(width: number, height: number, rows: Buffer, extra: Buffer[]): Buffer<ArrayBuffer> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    ...extra,
    chunk('IDAT', deflateSync(rows, { level: 1 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const whole = Buffer.alloc(body.length + 8);
  whole.writeUInt32BE(data.length, 0);
  body.copy(whole, 4);
  whole.writeUInt32BE(crc32(body), body.length + 4);
  return whole;
}
