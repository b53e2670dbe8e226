import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { inputOptions, probeOptions } from '../../ffmpeg/input.ts';
import type { Program, Programs } from '../../ffmpeg/programs.ts';
import { ProgramError, type RunLimits, type RunOptions, runProgram } from '../../ffmpeg/run.ts';
import type { EngineLimits } from '../../limits.ts';

/** ffprobe writes many numbers as text, and omits unknown values. */
const Text = z.string().optional();
const Count = z.number().optional();

const SideData = z.object({ side_data_type: Text, rotation: Count, displaymatrix: Text });

/** One stream from `ffprobe -show_streams`; only the fields that we read. */
export const ProbedStream = z.object({
  index: z.int().nonnegative(),
  codec_name: Text,
  codec_type: Text,
  codec_tag_string: Text,
  profile: z.union([z.string(), z.number()]).optional(),
  level: Count,
  pix_fmt: Text,
  width: Count,
  height: Count,
  sample_aspect_ratio: Text,
  r_frame_rate: Text,
  avg_frame_rate: Text,
  start_time: Text,
  duration: Text,
  bit_rate: Text,
  nb_frames: Text,
  bits_per_raw_sample: Text,
  bits_per_sample: Count,
  channels: Count,
  sample_rate: Text,
  field_order: Text,
  color_transfer: Text,
  color_space: Text,
  disposition: z.record(z.string(), z.number()).default({}),
  tags: z.record(z.string(), z.string()).default({}),
  side_data_list: z.array(SideData).default([]),
});
export type ProbedStream = z.infer<typeof ProbedStream>;

/** The whole file; only the fields that we read. */
const ProbedFormat = z.object({ duration: Text, start_time: Text, bit_rate: Text });

const Probed = z.object({ streams: z.array(ProbedStream).default([]), format: ProbedFormat.default({}) });

/** The result of ffprobe for a file. */
export interface Probe extends z.infer<typeof Probed> {
  /** The last lines of standard error. */
  readonly messages: readonly string[];
}

/** One packet of a stream, with presentation and decoding times in seconds; null if the file has none. */
export interface ProbedPacket {
  readonly pts: number | null;
  readonly dts: number | null;
  readonly duration: number | null;
}

/** Examines one untrusted file with ffprobe and ffmpeg. Each run has an empty working directory and limits. */
export interface Prober {
  /** @throws ProgramError */
  probe(): Promise<Probe>;
  /**
   * Reads the packets of one stream without decoding: all of them, or the first `most` starting at `fromS`.
   * @throws ProgramError
   */
  packets(
    stream: number,
    onPacket: (packet: ProbedPacket) => void,
    range?: { fromS?: number; most?: number },
  ): Promise<void>;
  /**
   * Decodes the start of a video and an audio stream, given by their indices.
   * @returns for each whether a frame was decoded
   * @throws ProgramError
   */
  decode(streams: { video?: number; audio?: number }): Promise<{ video: boolean; audio: boolean }>;
}

/** Excludes the tags of the file: we read none of them, and a recorder's private data in them may have megabytes. */
const ofFormat = ['-show_entries', `format=${Object.keys(ProbedFormat.shape).join(',')}`];
/** Reports of files within the limits have some tens of kilobytes. */
const maxReportBytes = 4 * 1024 * 1024;
/** Share of the time limit. If a track is empty, ffmpeg reads a long file to its end, which is not an error of the file. */
const decodingShare = 0.4;
/**
 * Video and audio are decoded to separate outputs, because newer versions otherwise end one at the last frame of the other. They
 * share one pipe; the length of a frame's hash identifies the output.
 */
const hashes = {
  video: { digits: 8, options: ['-c:v', 'rawvideo', '-f', 'framehash', '-hash', 'CRC32', '-flush_packets', '1'] },
  audio: { digits: 32, options: ['-c:a', 'pcm_s16le', '-f', 'framehash', '-hash', 'MD5', '-flush_packets', '1'] },
} as const;
type Kind = keyof typeof hashes;

/** `path` is absolute; `demuxer` belongs to the container that the first bytes show. */
export function createProber(path: string, demuxer: string, programs: Programs, limits: EngineLimits): Prober {
  const input = inputOptions(demuxer);
  const probed = probeOptions(demuxer);
  const runLimits: RunLimits = {
    wallMs: limits.identifyTimeoutMs,
    cpuMs: limits.identifyTimeoutMs,
    memoryBytes: limits.maxMemoryBytes,
    stallMs: limits.identifyTimeoutMs,
  };
  // With `file:`, a colon in the name is not mistaken for the end of a protocol.
  const source = `file:${path}`;

  const run = async (program: Program, argv: readonly string[], options: Partial<RunOptions> = {}) => {
    const cwd = await mkdtemp(join(tmpdir(), 'mds-probe-'));
    try {
      return await runProgram(program, ['-hide_banner', ...argv], {
        step: 'identify',
        cwd,
        limits: runLimits,
        hide: { [source]: 'the file', [path]: 'the file' },
        maxOutputBytes: maxReportBytes,
        ...options,
      });
    } finally {
      await rm(cwd, { recursive: true, force: true });
    }
  };

  return {
    async probe() {
      const argv = ['-loglevel', 'warning', ...probed, '-of', 'json', '-show_streams', ...ofFormat, source];
      const { stdout, run: report } = await run(programs.ffprobe, argv);
      return { ...Probed.parse(JSON.parse(stdout.toString('utf8'))), messages: report.stderrTail };
    },

    async packets(stream, onPacket, { fromS, most } = {}) {
      const interval = fromS === undefined && most === undefined ? [] : ['-read_intervals', intervalOf(fromS, most)];
      const argv = [
        ...['-loglevel', 'error', ...probed, '-select_streams', String(stream), ...interval],
        ...['-show_entries', 'packet=pts_time,dts_time,duration_time', '-of', 'compact=p=0:nk=0', source],
      ];
      const lines = lineReader((line) => {
        if (line.includes('_time=')) onPacket(packetOf(line));
      });
      await run(programs.ffprobe, argv, { onOutput: lines.take });
      lines.end();
    },

    async decode(streams) {
      const kinds = Object.keys(hashes) as Kind[];
      const outputs = kinds.flatMap((kind) => {
        const index = streams[kind];
        return index === undefined ? [] : ['-map', `0:${index}`, '-frames', '1', ...hashes[kind].options, 'pipe:1'];
      });
      const seen = new Set<Kind>();
      const lines = lineReader((line) => {
        const digits = /^\d.*,\s*([0-9a-f]+)\s*$/.exec(line)?.[1]?.length;
        for (const kind of kinds) if (hashes[kind].digits === digits) seen.add(kind);
      });
      // Finding undecodable frames is the purpose here, so they must not make ffmpeg fail.
      const argv = ['-nostdin', '-loglevel', 'error', '-max_error_rate', '1', ...input, '-i', source, ...outputs];
      const limits = { ...runLimits, wallMs: runLimits.wallMs * decodingShare };
      await run(programs.ffmpeg, argv, { limits, onOutput: lines.take }).catch((error: unknown) => {
        const ranOutOfTime = error instanceof ProgramError && error.failure === 'wall' && seen.size > 0;
        if (!ranOutOfTime) throw error;
      });
      lines.end();
      return { video: seen.has('video'), audio: seen.has('audio') };
    },
  };
}

function intervalOf(fromS: number | undefined, most: number | undefined): string {
  return `${fromS === undefined ? '' : fromS.toFixed(3)}%${most === undefined ? '' : `+#${most}`}`;
}

function packetOf(line: string): ProbedPacket {
  const value = (key: string) => seconds(new RegExp(`(?:^|\\|)${key}_time=([^|]*)`).exec(line)?.[1]);
  return { pts: value('pts'), dts: value('dts'), duration: value('duration') };
}

/** Beyond this, milliseconds are no longer exact integers. 30,000 years are far above any limit on durations. */
const maxSeconds = 1e12;

/** A time as ffprobe writes it. Null for `N/A`, for nothing, and for values that no clock can show. */
export function seconds(text: string | undefined): number | null {
  const value = text === undefined ? Number.NaN : Number.parseFloat(text);
  return Math.abs(value) <= maxSeconds ? value : null;
}

function lineReader(onLine: (line: string) => void) {
  let rest = '';
  return {
    take(piece: Buffer) {
      const lines = (rest + piece.toString('latin1')).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) onLine(line);
    },
    end: () => onLine(rest),
  };
}
