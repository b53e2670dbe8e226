import { join } from 'node:path';
import { RenderError } from '../../errors.ts';
import { monoArgs } from '../../ffmpeg/argv/audio.ts';
import type { AudioTrack } from '../../identified.ts';
import type { PlannedRendition } from '../../plan.ts';
import type { WaveformPreset } from '../../presets/audio.ts';
import { type OutputFacts, readyFile, writeVerifiedImage, writeVerifiedText } from '../output-file.ts';
import type { Step, StepContext } from './step.ts';
import { waveformData, waveformPicture } from './waveform-files.ts';
import { createPeakCollector, type Peaks } from './waveform-peaks.ts';

export type PlannedWaveform = PlannedRendition & { readonly preset: WaveformPreset };

export function isWaveform(planned: PlannedRendition): planned is PlannedWaveform {
  return planned.preset.type === 'waveform';
}

/** Makes the peaks and images of a waveform, all from one decode. */
export function waveformStep(wanted: readonly PlannedWaveform[], track: AudioTrack, weight: number): Step {
  return {
    name: 'waveform',
    renditions: wanted,
    weight,
    async run(context) {
      const peaks = await collectPeaks(context, track);
      let problem: unknown = null;
      for (const planned of wanted) {
        const place = join(context.outDir, `${planned.name}.${planned.extension}`);
        try {
          const facts = await write(place, planned, peaks, track);
          context.finish(planned, readyFile(planned, place, facts));
        } catch (error) {
          problem ??= error;
        }
      }
      // Becomes the failure of the renditions that were not finished.
      if (problem !== null) throw problem;
    },
  };
}

async function collectPeaks(context: StepContext, track: AudioTrack): Promise<Peaks> {
  const { path, source } = context;
  const expected = Math.max(1, ((source.durationMs ?? 0) / 1_000) * track.sampleRate * 2);
  const collector = createPeakCollector();
  let taken = 0;
  await context.ffmpeg(monoArgs(path, source, track), {
    onOutput(piece) {
      collector.add(piece);
      taken += piece.length;
      context.progress((0.9 * taken) / expected);
    },
  });
  const peaks = collector.finish();
  if (peaks.samples === 0) throw new RenderError('corrupt_media', 'the audio cannot be decoded');
  return peaks;
}

function write(place: string, { preset }: PlannedWaveform, peaks: Peaks, track: AudioTrack): Promise<OutputFacts> {
  if (preset.container === 'webp') {
    const picture = waveformPicture(peaks, preset).webp({ quality: preset.quality });
    return writeVerifiedImage(place, preset, (temporary) => picture.toFile(temporary));
  }
  return writeVerifiedText(place, JSON.stringify(waveformData(peaks, track.sampleRate, preset)));
}
