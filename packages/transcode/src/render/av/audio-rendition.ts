import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { audioShape, bitrateFor, copyAudioArgs, encodeAudioArgs } from '../../ffmpeg/argv/audio.ts';
import { inputOptions } from '../../ffmpeg/input.ts';
import type { AudioTrack } from '../../identified.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { AudioPreset } from '../../presets/audio.ts';
import { type OutputFacts, readyFile, writeVerified } from '../output-file.ts';
import { gainFor, type Loudness, measureLoudness } from './loudness.ts';
import type { Step, StepContext } from './step.ts';

/** A planned rendition of an `audio` preset. */
export type PlannedAudio = PlannedRendition & { readonly preset: AudioPreset };

/** Progress of the step after each part. */
const share = { measure: 0.4, encode: 0.9 };
/** Samples of one AAC frame, the smallest unit of a player's position. */
const frameSamples = 1_024;
/** Peaks this close to the limit may exceed it once coded: AAC keeps the spectrum, not the wave. White noise rises by 3 dB. */
const codingMarginDb = 4;
/** Margin for the second encode, which may differ slightly from the first. */
const secondMarginDb = 0.1;
/** Accepted distance from the target loudness (EBU R 128, 2020: ±0.5 LU where ±0.2 is impracticable). */
const toleranceLu = 0.5;

/** AAC in MP4 at the preset's loudness: the track is measured, then encoded with one constant gain. */
export function audioStep(planned: PlannedAudio, track: AudioTrack, weight: number): Step {
  const { name, extension, preset } = planned;
  return {
    name: `${name}.${extension}`,
    renditions: [planned],
    weight,
    async run(context) {
      const { path, source, outDir } = context;
      const shape = audioShape(track);
      const durationS = Math.max(1, (source.durationMs ?? 0) / 1_000);
      const loudness = await measureLoudness(context, path, source, track, shape, (seconds) =>
        context.progress((share.measure * seconds) / durationS),
      );
      const decodedS = loudness.samples / shape.sampleRate;
      if (decodedS < Math.min(durationS - 1, 0.98 * durationS)) {
        context.warn(
          `Only ${decodedS.toFixed(1)} s of ${durationS.toFixed(1)} s could be decoded: the file seems to be damaged or cut off.`,
        );
      }
      const place = join(outDir, `${name}.${extension}`);
      const notes: string[] = [];
      const facts = await writeVerified(
        place,
        async (temporary) => {
          notes.push(...(await make(context, preset, track, loudness, temporary)));
        },
        (temporary) => readBack(context, temporary, (loudness.samples * 1_000) / shape.sampleRate),
      );
      context.finish(planned, readyFile(planned, place, facts, notes));
    },
  };
}

/** Writes the file and returns notes on how. */
async function make(
  context: StepContext,
  preset: AudioPreset,
  track: AudioTrack,
  loudness: Loudness,
  file: string,
): Promise<string[]> {
  const { path, source } = context;
  if (fits(track, loudness, preset)) {
    await context.ffmpeg(copyAudioArgs(path, source, track, file));
    return [
      `Copied: it is already AAC, and its ${loudness.integrated?.toFixed(1)} LUFS are close enough to the target loudness.`,
    ];
  }
  const shape = audioShape(track);
  const durationMs = Math.max(1, (loudness.samples * 1_000) / shape.sampleRate);
  const encode = (gainDb: number) =>
    context.ffmpeg(
      encodeAudioArgs(path, source, track, {
        ...{ shape, gainDb, file },
        bitrate: bitrateFor(shape, preset.bitrate),
      }),
      {
        onProgress: ({ timeMs }) =>
          context.progress(share.measure + ((share.encode - share.measure) * timeMs) / durationMs),
      },
    );
  const { gainDb, note } = gainFor(loudness, preset);
  const downmix = track.channels > 2 ? [`Mixed down from ${track.channels} channels.`] : [];
  await encode(gainDb);
  if (loudness.truePeak + gainDb < preset.true_peak - codingMarginDb) return [note, ...downmix];
  const coded = await measureLoudness(context, file, { format: 'm4a' }, { index: 0, ...shape }, shape);
  const over = coded.truePeak - preset.true_peak;
  if (over <= 0) return [note, ...downmix];
  await encode(gainDb - over - secondMarginDb);
  return [
    note,
    `Lowered by another ${(over + secondMarginDb).toFixed(1)} dB, because encoding had raised its peaks.`,
    ...downmix,
  ];
}

/** True if every player accepts the track and its loudness is right. */
function fits(track: AudioTrack, { integrated, truePeak }: Loudness, preset: AudioPreset): boolean {
  const { codec, profile, channels, sampleRate, bitrate, startMs } = track;
  const plain = codec === 'aac' && profile === 'LC' && channels <= 2 && sampleRate <= 48_000 && startMs < 50;
  const modest = bitrate !== null && bitrate <= preset.bitrate * 1.5;
  const loud =
    integrated !== null && Math.abs(integrated - preset.loudness) <= toleranceLu && truePeak <= preset.true_peak;
  return plain && modest && loud;
}

const Probed = z.object({
  streams: z.tuple([
    z.object({
      codec_name: z.literal('aac'),
      channels: z.int().min(1).max(2),
      sample_rate: z.coerce.number().positive(),
    }),
  ]),
  format: z.object({ duration: z.coerce.number().positive() }),
});

/** Reads the written file back. Throws unless it is one track of AAC of this length. */
async function readBack(context: StepContext, file: string, expectedMs: number): Promise<OutputFacts> {
  const shown = ['-of', 'json', '-show_entries', 'stream=codec_name,channels,sample_rate:format=duration'];
  const answer = await context.ffprobe([...inputOptions('mov', ['aac']), ...shown, file]);
  const probed = Probed.safeParse(JSON.parse(answer.toString('utf8')));
  if (!probed.success) throw new Error('the encoded file is not one track of AAC');
  const durationMs = Math.round(probed.data.format.duration * 1_000);
  const frameMs = (frameSamples * 1_000) / probed.data.streams[0].sample_rate;
  if (Math.abs(durationMs - expectedMs) > frameMs + 1) {
    throw new Error(`the encoded file is ${durationMs} ms long instead of ${Math.round(expectedMs)}`);
  }
  return { bytes: (await stat(file)).size, width: 0, height: 0, frames: 1, durationMs };
}
