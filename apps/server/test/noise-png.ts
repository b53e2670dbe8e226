import { createHash } from 'node:crypto';
import { crc32, deflateSync } from 'node:zlib';

/** A real PNG (RFC 2083) of coloured noise. Each seed gives other bytes; the same seed always the same. */
export function noisePng(seed: number | string, width = 64, height = 48): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // Eight bits a channel, RGB.
  header.set([8, 2, 0, 0, 0], 8);
  const rows = Buffer.alloc((width * 3 + 1) * height);
  let noise = Buffer.alloc(0);
  for (let at = 0; at < rows.length; at++) {
    if (at % 32 === 0) noise = createHash('sha256').update(`${seed}:${at}`).digest();
    // A row begins with its filter: 0, none.
    rows[at] = at % (width * 3 + 1) === 0 ? 0 : (noise[at % 32] ?? 0);
  }
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
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
