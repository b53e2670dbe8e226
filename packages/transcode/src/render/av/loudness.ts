import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError } from '../../errors.ts';
import { type AudioShape, measureArgs, parseSampleCount } from '../../ffmpeg/argv/audio.ts';
import type { AudioTrack, IdentifiedFile } from '../../identified.ts';
import type { AudioPreset } from '../../presets/audio.ts';
import type { StepContext } from './step.ts';

/** What a sound measures by EBU R 128 (ITU-R BS.1770), in the shape that it will be encoded in. */
export interface Loudness {
  /** Integrated loudness in LUFS; null for silence, which has none. */
  readonly integrated: number | null;
  /** The highest true peak in dBTP; -Infinity for silence. */
  readonly truePeak: number;
  /** How long it is, by the samples that were decoded. */
  readonly samples: number;
}

/** Shorter sounds are repeated to be measured: the meter's windows do not fill, and its gate would leave nothing. */
const measurableS = 3;
/** Below this the meter's absolute gate (BS.1770, -70 LUFS) leaves nothing. */
const silentLufs = -70;
/** ffmpeg prints peaks as fractions of full scale with three decimals: the true one may be half of the last higher. */
const peakStep = 0.000_5;

/** Measures one track of a file; `progress` is told the seconds that were measured. */
export async function measureLoudness(
  context: StepContext,
  path: string,
  source: Pick<IdentifiedFile, 'format'>,
  track: Pick<AudioTrack, 'index' | 'channels' | 'sampleRate'>,
  shape: AudioShape,
  progress: (seconds: number) => void = () => undefined,
): Promise<Loudness> {
  const run = async (repeatedS?: number): Promise<Loudness> => {
    const countFile = join(context.scratch, 'samples.txt');
    let text = '';
    let integrated: number | null = null;
    let peak = 0;
    const read = (upTo: number) => {
      const block = text.slice(0, upTo);
      const last = (key: string) => {
        const at = block.lastIndexOf(`${key}=`);
        return at < 0 ? null : Number.parseFloat(block.slice(at + key.length + 1));
      };
      const lufs = last('lavfi.r128.I');
      if (lufs !== null && Number.isFinite(lufs)) integrated = lufs > silentLufs ? lufs : null;
      peak = Math.max(peak, last('lavfi.r128.true_peak') ?? 0);
      const at = /.*pts_time:([\d.]+)/s.exec(block)?.[1];
      if (at !== undefined && repeatedS === undefined) progress(Number(at));
      text = text.slice(upTo);
    };
    const options = { shape, countFile, ...(repeatedS === undefined ? {} : { repeatedS }) };
    await context.ffmpeg(measureArgs(path, source, track, options), {
      onOutput(piece) {
        text += piece.toString('latin1');
        // Only whole blocks, each of which begins with the frame's number.
        const end = text.lastIndexOf('frame:');
        if (end > 0) read(end);
      },
    });
    read(text.length);
    const samples = parseSampleCount(await readFile(countFile, 'latin1'));
    await rm(countFile);
    return { integrated, truePeak: peak > 0 ? 20 * Math.log10(peak + peakStep) : -Infinity, samples };
  };
  const once = await run();
  if (once.samples === 0) throw new RenderError('corrupt_media', 'nothing of the sound can be decoded');
  if (once.samples >= measurableS * shape.sampleRate) return once;
  const { integrated, truePeak } = await run(measurableS);
  return { integrated, truePeak: Math.max(once.truePeak, truePeak), samples: once.samples };
}

/** More than this is not a quiet recording but the noise of an empty one. */
const mostBoostDb = 40;

/** Gain in dB that brings a sound to the preset's loudness, as far as its peaks allow, and the sentence that says so. */
export function gainFor(
  { integrated, truePeak }: Pick<Loudness, 'integrated' | 'truePeak'>,
  { loudness, true_peak }: Pick<AudioPreset, 'loudness' | 'true_peak'>,
): { gainDb: number; peakLimited: boolean; note: string } {
  if (integrated === null) {
    return { gainDb: 0, peakLimited: false, note: 'It is silent, or nearly, and was left as loud as it is.' };
  }
  const wanted = loudness - integrated;
  const gainDb = Math.min(wanted, true_peak - truePeak, mostBoostDb);
  const peakLimited = gainDb < wanted && gainDb < mostBoostDb;
  const measured = `Measured ${lufs(integrated)}`;
  const change = `${gainDb < 0 ? 'lowered' : 'raised'} by ${Math.abs(gainDb).toFixed(1)} dB`;
  const note =
    gainDb === wanted
      ? `${measured}, ${change} to ${lufs(loudness)}.`
      : `${measured}, ${change} to ${lufs(integrated + gainDb)} instead of ${lufs(loudness)}: ${
          peakLimited ? `its peaks would pass ${true_peak} dBTP` : 'more would only raise its noise'
        }.`;
  return { gainDb, peakLimited, note };
}

function lufs(value: number): string {
  return `${value.toFixed(1)} LUFS`;
}
