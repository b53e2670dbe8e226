import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError } from '../../errors.ts';
import { type AudioShape, measureArgs, parseSampleCount } from '../../ffmpeg/argv/audio.ts';
import type { AudioTrack, IdentifiedFile } from '../../identified.ts';
import type { AudioPreset } from '../../presets/audio.ts';
import type { StepContext } from './step.ts';

/** Measurements by EBU R 128 (ITU-R BS.1770) in the shape of the later encode. */
export interface Loudness {
  /** Integrated loudness in LUFS; null for silence, which has none. */
  readonly integrated: number | null;
  /** The highest true peak in dBTP; -Infinity for silence. */
  readonly truePeak: number;
  /** Number of decoded samples. */
  readonly samples: number;
}

/** Shorter audio is repeated for the measurement. Otherwise the meter's windows do not fill, and its gate leaves nothing. */
const measurableS = 3;
/** Below this the meter's absolute gate (BS.1770, -70 LUFS) leaves nothing. */
const silentLufs = -70;
/** ffmpeg prints peaks as fractions of full scale with three decimals, so the true peak may be half a step higher. */
const peakStep = 0.000_5;

/** Measures one track of a file; `progress` is called with the measured seconds. */
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
        // Only complete blocks; each begins with the frame's number.
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
  if (once.samples === 0) throw new RenderError('corrupt_media', 'the audio cannot be decoded');
  if (once.samples >= measurableS * shape.sampleRate) return once;
  const { integrated, truePeak } = await run(measurableS);
  return { integrated, truePeak: Math.max(once.truePeak, truePeak), samples: once.samples };
}

/** A recording that needs more boost is not quiet but empty, and only its noise would be raised. */
const maxBoostDb = 40;

/** The gain in dB to the preset's loudness, as far as the peaks allow, and a sentence about it. */
export function gainFor(
  { integrated, truePeak }: Pick<Loudness, 'integrated' | 'truePeak'>,
  { loudness, true_peak }: Pick<AudioPreset, 'loudness' | 'true_peak'>,
): { gainDb: number; peakLimited: boolean; note: string } {
  if (integrated === null) {
    return { gainDb: 0, peakLimited: false, note: 'The audio is silent or nearly silent; its volume was not changed.' };
  }
  const wanted = loudness - integrated;
  const gainDb = Math.min(wanted, true_peak - truePeak, maxBoostDb);
  const peakLimited = gainDb < wanted && gainDb < maxBoostDb;
  const measured = `Measured ${lufs(integrated)}`;
  const change = `${gainDb < 0 ? 'lowered' : 'raised'} by ${Math.abs(gainDb).toFixed(1)} dB`;
  const note =
    gainDb === wanted
      ? `${measured}, ${change} to ${lufs(loudness)}.`
      : `${measured}, ${change} to ${lufs(integrated + gainDb)} instead of ${lufs(loudness)}: ${
          peakLimited ? `its peaks would exceed ${true_peak} dBTP` : 'a higher gain would only raise its noise'
        }.`;
  return { gainDb, peakLimited, note };
}

function lufs(value: number): string {
  return `${value.toFixed(1)} LUFS`;
}
