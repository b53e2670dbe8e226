import { type FileHandle, mkdir, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RenderedFile } from '../result.ts';
import type { MediaPlaylist, Segment } from './hls-playlist.ts';
import { fragmentHead, initSegment } from './mp4-fragments.ts';
import { type Mp4Track, timeAt } from './mp4-track.ts';

/** A track cut into segments, with the files written for it. */
export interface Packaged {
  readonly playlist: MediaPlaylist;
  readonly files: readonly RenderedFile[];
}

/** Writes `NAME/init.mp4` and `NAME/00001.m4s`… into a folder. `starts`: the first sample of each segment; the first is 0. */
export async function packageTrack(
  track: Mp4Track,
  starts: readonly number[],
  folder: string,
  name: string,
): Promise<Packaged> {
  const contentType = track.kind === 'video' ? 'video/mp4' : 'audio/mp4';
  const files: RenderedFile[] = [];
  const writeSegmentFile = async (file: string, ...bytes: readonly Uint8Array[]) => {
    const path = join(folder, file);
    const whole = Buffer.concat(bytes);
    await writeFile(path, whole);
    files.push({ name: file, path, contentType, bytes: whole.length });
    return whole.length;
  };
  await mkdir(join(folder, name), { recursive: true });
  const initUri = `${name}/init.mp4`;
  await writeSegmentFile(initUri, initSegment(track));
  const segments: Segment[] = [];
  const source = await open(track.path, 'r');
  try {
    for (const [index, first] of starts.entries()) {
      const end = starts[index + 1] ?? track.samples.count;
      const uri = `${name}/${String(index + 1).padStart(5, '0')}.m4s`;
      const { head, bytes: size } = fragmentHead(track, { first, end, sequence: index + 1 });
      const bytes = await writeSegmentFile(uri, head, await readSamples(source, track, first, end, size));
      segments.push({ uri, seconds: timeAt(track, end) - timeAt(track, first), bytes });
    }
  } finally {
    await source.close();
  }
  return { playlist: { name, initUri, segments, codec: track.codec }, files };
}

/** The bytes of these samples, in few reads: in a file with one track, samples are consecutive. */
async function readSamples(
  file: FileHandle,
  { samples: { offsets, sizes } }: Mp4Track,
  first: number,
  end: number,
  bytes: number,
): Promise<Buffer> {
  const result = Buffer.allocUnsafe(bytes);
  let filled = 0;
  for (let i = first; i < end; ) {
    const position = offsets[i] ?? 0;
    let length = 0;
    while (i < end && offsets[i] === position + length) {
      length += sizes[i] ?? 0;
      i += 1;
    }
    const { bytesRead } = await file.read(result, filled, length, position);
    if (bytesRead !== length) throw new Error('An encoded file is shorter than its index.');
    filled += length;
  }
  return result;
}
