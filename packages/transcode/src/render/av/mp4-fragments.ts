import { box, fullBox, u16, u32, u64 } from './mp4-boxes.ts';
import type { Mp4Track } from './mp4-track.ts';

const trackId = 1;
const unityMatrix = u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000);
/** ISO/IEC 14496-12, 8.8.3.1: depends on no other sample; depends on others and is not a sync sample. */
const syncFlags = 0x02000000;
const otherFlags = 0x01010000;

/**
 * The init segment of a CMAF track (ISO/IEC 23000-19): everything that a decoder needs before the first sample. An edit list
 * skips the reordering delay of video and the priming samples of AAC, so that both begin at 0. Players apply it. Negative
 * composition offsets would do the same for video, but ffmpeg treats them as a delay.
 */
export function initSegment(track: Mp4Track): Buffer {
  const { kind, timescale, mediaTime, boxes } = track;
  const video = kind === 'video';
  const edit = mediaTime === 0 ? [] : [box('edts', fullBox('elst', 0, 0, u32(1, 0, mediaTime, 0x10000)))];
  return Buffer.concat([
    box('ftyp', Buffer.from('cmfc\0\0\0\0iso6cmfc', 'latin1')),
    box(
      'moov',
      fullBox(
        'mvhd',
        0,
        0,
        u32(0, 0, timescale, 0, 0x10000),
        u16(0x100, 0),
        u32(0, 0),
        unityMatrix,
        Buffer.alloc(24),
        u32(trackId + 1),
      ),
      box(
        'trak',
        fullBox(
          'tkhd',
          0,
          7,
          u32(0, 0, trackId, 0, 0, 0, 0),
          u16(0, 0, video ? 0 : 0x100, 0),
          unityMatrix,
          u32(track.width * 0x10000, track.height * 0x10000),
        ),
        ...edit,
        box(
          'mdia',
          fullBox('mdhd', 0, 0, u32(0, 0, timescale, 0), u16(track.packedLanguage, 0)),
          boxes.hdlr,
          box(
            'minf',
            boxes.mediaHeader,
            boxes.dinf,
            box(
              'stbl',
              boxes.stsd,
              fullBox('stts', 0, 0, u32(0)),
              fullBox('stsc', 0, 0, u32(0)),
              fullBox('stsz', 0, 0, u32(0, 0)),
              fullBox('stco', 0, 0, u32(0)),
            ),
          ),
        ),
      ),
      box('mvex', fullBox('trex', 0, 0, u32(trackId, 1, 0, 0, 0))),
    ),
  ]);
}

/** A movie fragment of the samples from `first` to before `end`, without their data: `bytes` of sample data must follow. */
export function fragmentHead(
  { kind, samples, mediaTime }: Mp4Track,
  { first, end, sequence }: { first: number; end: number; sequence: number },
): { head: Buffer; bytes: number } {
  const video = kind === 'video';
  const words: number[] = [];
  let bytes = 0;
  for (let i = first; i < end; i += 1) {
    const size = samples.sizes[i] ?? 0;
    const composition = (samples.times[i] ?? 0) + mediaTime - (samples.decodeTimes[i] ?? 0);
    words.push(samples.durations[i] ?? 0, size, samples.sync[i] ? syncFlags : otherFlags);
    if (video) words.push(composition);
    bytes += size;
  }
  // Data offset; then duration, size and flags for each sample, and for video also its composition offset.
  const present = 0x1 | 0x100 | 0x200 | 0x400 | (video ? 0x800 : 0);
  const movieFragment = (dataOffset: number) =>
    box(
      'moof',
      fullBox('mfhd', 0, 0, u32(sequence)),
      box(
        'traf',
        fullBox('tfhd', 0, 0x020000, u32(trackId)),
        fullBox('tfdt', 1, 0, u64(samples.decodeTimes[first] ?? 0)),
        fullBox('trun', 1, present, u32(end - first, dataOffset), u32(...words)),
      ),
    );
  const size = movieFragment(0).length;
  const head = Buffer.concat([movieFragment(size + 8), u32(bytes + 8), Buffer.from('mdat', 'latin1')]);
  return { head, bytes };
}
