import { type FileHandle, open } from 'node:fs/promises';
import { BoxError, boxesIn, boxHeader, findBox, needBox, printable } from './mp4-boxes.ts';

/** The samples of a track in decoding order; every list has one entry per sample. Times are in units of the timescale. */
export interface Samples {
  readonly count: number;
  /** Positions in the file. */
  readonly offsets: Float64Array;
  readonly sizes: Uint32Array;
  readonly durations: Uint32Array;
  readonly decodeTimes: Float64Array;
  /** Presentation times with the edit list applied, so that the presentation begins at 0. */
  readonly times: Float64Array;
  /** 1 if the container marks the sample as a sync sample. */
  readonly sync: Uint8Array;
}

/** The only track of an MP4 file (not fragmented) that ffmpeg wrote for us. */
export interface Mp4Track {
  readonly path: string;
  readonly kind: 'video' | 'audio';
  readonly timescale: number;
  readonly samples: Samples;
  /** Media time of the start of the presentation: a video's reordering delay, or the priming samples of AAC. */
  readonly mediaTime: number;
  /** The display matrix neither rotates nor mirrors the picture. */
  readonly upright: boolean;
  /** Delay before the presentation begins, in units of the movie's timescale; nearly always 0. */
  readonly emptyEdit: number;
  /** In the notation of RFC 6381: `avc1.64001f`, `mp4a.40.2`. */
  readonly codec: string;
  readonly width: number;
  readonly height: number;
  /** Channels of audio; 0 for video. */
  readonly channels: number;
  readonly sampleRate: number;
  /** Length in bytes of the size before each NAL unit; 0 for audio. */
  readonly nalLengthBytes: number;
  /** Boxes that an init segment repeats unchanged. */
  readonly boxes: { readonly hdlr: Buffer; readonly mediaHeader: Buffer; readonly dinf: Buffer; readonly stsd: Buffer };
  /** Three letters of ISO 639-2, packed as in `mdhd`. */
  readonly packedLanguage: number;
}

/** Reads the index of such a file. @throws BoxError if it is invalid */
export async function readMp4Track(path: string): Promise<Mp4Track> {
  const file = await open(path, 'r');
  try {
    return parseTrack(path, await readMovie(file));
  } catch (error) {
    // A read past the end of a box: it is shorter than its fields claim.
    if (error instanceof RangeError) {
      throw new BoxError('The index of the file is damaged: one of its boxes is shorter than its contents.', {
        cause: error,
      });
    }
    throw error;
  } finally {
    await file.close();
  }
}

/** Presentation time of a sample in seconds. For an index equal to the number of samples: the end of the presentation. */
export function timeAt({ samples, timescale }: Mp4Track, index: number): number {
  if (index === 0) return 0;
  if (index < samples.count) return (samples.times[index] ?? 0) / timescale;
  return endOf(samples.times, samples.durations) / timescale;
}

/** With reordered frames, the last frame of the file need not be the last one shown. */
function endOf(times: Float64Array, durations: Uint32Array): number {
  let end = 0;
  for (let i = 0; i < times.length; i += 1) end = Math.max(end, (times[i] ?? 0) + (durations[i] ?? 0));
  return end;
}

/** The content of the box `moov`. */
async function readMovie(file: FileHandle): Promise<Buffer> {
  const { size: fileSize } = await file.stat();
  const header = Buffer.alloc(16);
  for (let at = 0; at < fileSize; ) {
    const { bytesRead } = await file.read(header, 0, 16, at);
    const { type, size, headerSize } = boxHeader(header.subarray(0, bytesRead));
    if (type === 'moov') {
      if (size < headerSize || at + size > fileSize)
        throw new BoxError('The index of the file has an impossible size.');
      const body = Buffer.alloc(size - headerSize);
      const read = await file.read(body, 0, body.length, at + headerSize);
      if (read.bytesRead !== body.length) throw new BoxError('The index of the file is cut off.');
      return body;
    }
    if (size < headerSize) break;
    at += size;
  }
  throw new BoxError('The file has no index.');
}

function parseTrack(path: string, moov: Buffer): Mp4Track {
  const tracks = boxesIn(moov).filter(({ type }) => type === 'trak');
  const [trak] = tracks;
  if (trak === undefined || tracks.length !== 1) throw new BoxError(`The file has ${tracks.length} tracks, not one.`);
  const mdia = needBox(trak.body, 'mdia').body;
  const minf = needBox(mdia, 'minf').body;
  const stbl = needBox(minf, 'stbl').body;
  const mdhd = needBox(mdia, 'mdhd').body;
  const wide = mdhd.readUInt8(0) === 1;
  const timescale = mdhd.readUInt32BE(wide ? 20 : 12);
  if (timescale === 0) throw new BoxError('The track has no timescale.');
  const { mediaTime, emptyEdit } = readEdits(trak.body);
  const hdlr = needBox(mdia, 'hdlr');
  const kind = hdlr.body.toString('latin1', 8, 12) === 'soun' ? 'audio' : 'video';
  const stsd = needBox(stbl, 'stsd');
  return {
    ...{ path, kind, timescale, mediaTime, emptyEdit },
    upright: isUpright(needBox(trak.body, 'tkhd').body),
    samples: readSamples(stbl, mediaTime),
    ...(kind === 'audio' ? audioEntry(stsd.body) : videoEntry(stsd.body)),
    boxes: {
      hdlr: hdlr.whole,
      mediaHeader: needBox(minf, kind === 'audio' ? 'smhd' : 'vmhd').whole,
      dinf: needBox(minf, 'dinf').whole,
      stsd: stsd.whole,
    },
    packedLanguage: mdhd.readUInt16BE(wide ? 32 : 20),
  };
}

/** ISO/IEC 14496-12, 8.3.2: `a b u c d v x y w`; a and d scale, b and c shear. The matrix precedes width and height. */
function isUpright(tkhd: Buffer): boolean {
  const matrix = tkhd.length - 8 - 36;
  const [a, b, c, d] = [0, 4, 12, 16].map((at) => tkhd.readInt32BE(matrix + at)) as [number, number, number, number];
  return a > 0 && d > 0 && b === 0 && c === 0;
}

/** Accepts at most one empty edit and one for the rest, because ffmpeg writes no others. */
function readEdits(trak: Buffer): { mediaTime: number; emptyEdit: number } {
  const edts = findBox(trak, 'edts');
  const elst = edts && findBox(edts.body, 'elst')?.body;
  let mediaTime = 0;
  let emptyEdit = 0;
  if (!elst) return { mediaTime, emptyEdit };
  const wide = elst.readUInt8(0) === 1;
  const entries = elst.readUInt32BE(4);
  for (let index = 0, at = 8; index < entries; index += 1, at += wide ? 20 : 12) {
    const duration = wide ? Number(elst.readBigUInt64BE(at)) : elst.readUInt32BE(at);
    const start = wide ? Number(elst.readBigInt64BE(at + 8)) : elst.readInt32BE(at + 4);
    if (start < 0 && index === 0) emptyEdit = duration;
    else if (index === entries - 1) mediaTime = start;
    else throw new BoxError('The track is cut into several pieces.');
  }
  return { mediaTime, emptyEdit };
}

/** More than a day of AAC frames at 96 kHz. A header of a hundred bytes must not make us allocate gigabytes. */
const maxEqualSamples = 10_000_000;

/** ISO/IEC 14496-12, 8.6 and 8.7: expands the run-length coded tables. */
function readSamples(stbl: Buffer, mediaTime: number): Samples {
  const table = (type: string) => needBox(stbl, type).body;
  const stsz = table('stsz');
  const count = stsz.readUInt32BE(8);
  const equalSize = stsz.readUInt32BE(4);
  // Checked before memory is allocated. ffmpeg also writes samples of equal size, for which the table has no entries.
  if (equalSize === 0 ? count > (stsz.length - 12) / 4 : count > maxEqualSamples) {
    throw new BoxError('The table of sizes has an impossible length.');
  }
  const sizes = new Uint32Array(count);
  for (let i = 0; i < count; i += 1) sizes[i] = equalSize || stsz.readUInt32BE(12 + 4 * i);

  const durations = new Uint32Array(count);
  const decodeTimes = new Float64Array(count);
  const stts = table('stts');
  let sample = 0;
  let time = 0;
  for (let entry = 0; entry < stts.readUInt32BE(4); entry += 1) {
    const delta = stts.readUInt32BE(12 + 8 * entry);
    for (let left = stts.readUInt32BE(8 + 8 * entry); left > 0 && sample < count; left -= 1, sample += 1) {
      durations[sample] = delta;
      decodeTimes[sample] = time;
      time += delta;
    }
  }
  if (sample !== count) throw new BoxError('The table of durations is too short.');

  const times = Float64Array.from(decodeTimes, (decodeTime) => decodeTime - mediaTime);
  const ctts = findBox(stbl, 'ctts')?.body;
  if (ctts) {
    const signed = ctts.readUInt8(0) === 1;
    sample = 0;
    for (let entry = 0; entry < ctts.readUInt32BE(4); entry += 1) {
      const at = 12 + 8 * entry;
      const offset = signed ? ctts.readInt32BE(at) : ctts.readUInt32BE(at);
      for (let left = ctts.readUInt32BE(at - 4); left > 0 && sample < count; left -= 1, sample += 1) {
        times[sample] = (times[sample] ?? 0) + offset;
      }
    }
  }

  const sync = new Uint8Array(count);
  const stss = findBox(stbl, 'stss')?.body;
  if (!stss) sync.fill(1);
  else for (let i = 0; i < stss.readUInt32BE(4); i += 1) sync[stss.readUInt32BE(8 + 4 * i) - 1] = 1;

  return { count, sizes, durations, decodeTimes, times, sync, offsets: readOffsets(stbl, sizes) };
}

function readOffsets(stbl: Buffer, sizes: Uint32Array): Float64Array {
  const offsets = new Float64Array(sizes.length);
  const stsc = needBox(stbl, 'stsc').body;
  const co64 = findBox(stbl, 'co64')?.body;
  const chunks = co64 ?? needBox(stbl, 'stco').body;
  const runs = stsc.readUInt32BE(4);
  const chunkCount = chunks.readUInt32BE(4);
  let sample = 0;
  for (let run = 0; run < runs; run += 1) {
    const first = stsc.readUInt32BE(8 + 12 * run);
    const perChunk = stsc.readUInt32BE(12 + 12 * run);
    const end = run + 1 < runs ? stsc.readUInt32BE(8 + 12 * (run + 1)) : chunkCount + 1;
    for (let chunk = first; chunk < end; chunk += 1) {
      let at = co64 ? Number(co64.readBigUInt64BE(8 + 8 * (chunk - 1))) : chunks.readUInt32BE(8 + 4 * (chunk - 1));
      for (let i = 0; i < perChunk && sample < sizes.length; i += 1, sample += 1) {
        offsets[sample] = at;
        at += sizes[sample] ?? 0;
      }
    }
  }
  if (sample !== sizes.length) throw new BoxError('The table of chunks is too short.');
  return offsets;
}

type Entry = Pick<Mp4Track, 'codec' | 'width' | 'height' | 'channels' | 'sampleRate' | 'nalLengthBytes'>;

/** Version, flags and number of entries, which precede the first entry. */
const stsdHeader = 8;

/** ISO/IEC 14496-15, 5.3.3.1: profile, constraints and level are bytes 1 to 3 of the configuration. */
function videoEntry(stsd: Buffer): Entry {
  const entry = boxesIn(stsd.subarray(stsdHeader))[0];
  if (entry?.type !== 'avc1') throw new BoxError(`The video is ${printable(entry?.type ?? 'missing')}, not avc1.`);
  const avcC = needBox(entry.body.subarray(78), 'avcC').body;
  return {
    codec: `avc1.${avcC.toString('hex', 1, 4)}`,
    width: entry.body.readUInt16BE(24),
    height: entry.body.readUInt16BE(26),
    ...{ channels: 0, sampleRate: 0 },
    nalLengthBytes: (avcC.readUInt8(4) & 3) + 1,
  };
}

const samplingFrequencies = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
];

/** ISO/IEC 14496-1, 7.2.6: nested descriptors; the innermost has the AudioSpecificConfig of ISO/IEC 14496-3, 1.6. */
function audioEntry(stsd: Buffer): Entry {
  const entry = boxesIn(stsd.subarray(stsdHeader))[0];
  if (entry?.type !== 'mp4a') throw new BoxError(`The audio is ${printable(entry?.type ?? 'missing')}, not mp4a.`);
  const esds = needBox(entry.body.subarray(28), 'esds').body.subarray(4);
  const stream = descriptor(esds, 3);
  const flags = stream.readUInt8(2);
  const skip = 3 + (flags & 0x80 ? 2 : 0) + (flags & 0x40 ? 1 + stream.readUInt8(3) : 0) + (flags & 0x20 ? 2 : 0);
  const decoder = descriptor(stream.subarray(skip), 4);
  const config = descriptor(decoder.subarray(13), 5);
  const objectType = config.readUInt8(0) >> 3;
  const frequency = ((config.readUInt8(0) & 7) << 1) | (config.readUInt8(1) >> 7);
  const sampleRate = samplingFrequencies[frequency];
  if (sampleRate === undefined) throw new BoxError('The audio has a non-standard sampling frequency.');
  return {
    codec: `mp4a.${decoder.toString('hex', 0, 1)}.${objectType}`,
    ...{ width: 0, height: 0, nalLengthBytes: 0 },
    channels: (config.readUInt8(1) >> 3) & 15,
    sampleRate,
  };
}

/** The content of the descriptor at the start of these bytes. Lengths have 7 bits per byte. */
function descriptor(bytes: Buffer, tag: number): Buffer {
  if (bytes.readUInt8(0) !== tag) throw new BoxError(`A descriptor ${tag} was expected.`);
  let length = 0;
  let at = 1;
  let more = true;
  while (more) {
    const byte = bytes.readUInt8(at);
    length = (length << 7) | (byte & 0x7f);
    more = (byte & 0x80) !== 0;
    at += 1;
  }
  return bytes.subarray(at, at + length);
}
