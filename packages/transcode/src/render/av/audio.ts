import type { IdentifiedFile, Tracks } from '../../identified.ts';
import { type PlannedRendition, playedAudio } from '../../plan.ts';
import { audioStep, type PlannedAudio } from './audio-rendition.ts';
import type { Step } from './step.ts';
import { isWaveform, waveformStep } from './waveform.ts';

/** Steps for presets of the types `audio` and `waveform`. */
export function audioSteps(
  source: IdentifiedFile & { readonly tracks: Tracks },
  wanted: readonly PlannedRendition[],
): Step[] {
  const track = playedAudio(source.tracks.audio);
  if (track === null) return [];
  // In the unit of the other steps' weights: seconds of processor time.
  const seconds = (source.durationMs ?? 0) / 1_000;
  const waveforms = wanted.filter(isWaveform);
  return [
    ...(waveforms.length > 0 ? [waveformStep(waveforms, track, 0.05 + seconds / 200)] : []),
    ...wanted.filter(isAudio).map((planned) => audioStep(planned, track, 0.1 + seconds / 40)),
  ];
}

function isAudio(planned: PlannedRendition): planned is PlannedAudio {
  return planned.preset.type === 'audio';
}
