import type { RawPixels } from '../heic.ts';

/** TIFF tags (TIFF 6.0, and ICC.1 annex B.4 for the profile) with their types: 3 is 16 bits, 4 is 32, 7 is bytes. */
const short = 3;
const long = 4;
const bytes = 7;

/**
 * Wraps pixels in an uncompressed TIFF with an ICC profile. libvips takes raw pixels for sRGB, and this is the only way to give
 * it their real profile.
 */
export function rawTiff({ data, width, height, channels }: RawPixels, profile: Buffer): Buffer {
  const colours = channels >= 3 ? 3 : 1;
  const hasAlpha = channels > colours;
  const entryCount = hasAlpha ? 12 : 11;
  const bitsAt = 8 + 2 + entryCount * 12 + 4;
  const profileAt = bitsAt + channels * 2;
  const dataAt = profileAt + profile.length + (profile.length & 1);
  const entries: Array<[tag: number, type: number, count: number, value: number]> = [
    [256, long, 1, width],
    [257, long, 1, height],
    // One or two 16-bit values are stored in the entry itself.
    [258, short, channels, channels <= 2 ? (channels === 2 ? 0x0008_0008 : 8) : bitsAt],
    [259, short, 1, 1],
    [262, short, 1, colours === 3 ? 2 : 1],
    [273, long, 1, dataAt],
    [277, short, 1, channels],
    [278, long, 1, height],
    [279, long, 1, data.length],
    [284, short, 1, 1],
    ...(hasAlpha ? [[338, short, 1, 2] as [number, number, number, number]] : []),
    [34_675, bytes, profile.length, profileAt],
  ];
  const head = Buffer.alloc(dataAt);
  head.write('II*\0', 0, 'latin1');
  head.writeUInt32LE(8, 4);
  head.writeUInt16LE(entries.length, 8);
  for (const [index, [tag, type, count, value]] of entries.entries()) {
    const at = 10 + index * 12;
    head.writeUInt16LE(tag, at);
    head.writeUInt16LE(type, at + 2);
    head.writeUInt32LE(count, at + 4);
    head.writeUInt32LE(value, at + 8);
  }
  for (let channel = 0; channel < channels; channel++) head.writeUInt16LE(8, bitsAt + channel * 2);
  profile.copy(head, profileAt);
  return Buffer.concat([head, data]);
}
