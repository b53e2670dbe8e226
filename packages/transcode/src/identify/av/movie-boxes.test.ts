import { afterAll, describe, expect, test } from 'vitest';
import { scratch } from '../../../test/scratch.ts';
import { type OpenBytes, openBytes } from '../bytes.ts';
import { readMovie } from './movie-boxes.ts';

const { file } = scratch();
const opened: OpenBytes[] = [];
afterAll(() => {
  for (const bytes of opened) bytes.close();
});

function open(...boxes: Buffer[]) {
  const bytes = openBytes(file(Buffer.concat([box('ftyp', Buffer.from('isom')), ...boxes])));
  opened.push(bytes);
  return bytes;
}

/** A box (ISO/IEC 14496-12, 4.2). @param size what its header claims */
function box(type: string, content: Buffer, size = 8 + content.length): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(size);
  head.write(type, 4, 'latin1');
  return Buffer.concat([head, content]);
}

const nested = (types: string[], content: Buffer): Buffer =>
  types.reduceRight(
    (inner, type) => box(type, type === 'stsd' ? Buffer.concat([Buffer.alloc(8), inner]) : inner),
    content,
  );

describe('the boxes of a movie', () => {
  test('fault 25: tracks that claim the rest of the file are read once', () => {
    // Each `mdia` claims all that follows, so that each track would contain every later one.
    const track = box('trak', box('mdia', Buffer.alloc(0), 2_000_000));
    const bytes = open(box('moov', Buffer.concat(Array.from({ length: 90_000 }, () => track))));
    const start = performance.now();
    expect(() => readMovie(bytes)).toThrow(/more than 100000 boxes/);
    expect(performance.now() - start).toBeLessThan(2_000);
  });

  test('show an encrypted track', () => {
    const path = ['moov', 'trak', 'mdia', 'minf', 'stbl', 'stsd'];
    const encrypted = open(nested(path, box('encv', Buffer.alloc(8))));
    expect(readMovie(encrypted)).toEqual({ endsEarly: false, encrypted: true });
    const plain = open(nested(path, box('avc1', Buffer.alloc(8))));
    expect(readMovie(plain)).toEqual({ endsEarly: false, encrypted: false });
  });
});
