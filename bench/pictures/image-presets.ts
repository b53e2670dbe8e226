import { defaultPresets, type Preset } from '@mds/transcode';

/** A preset for images that the peers support too. */
export type ImagePreset = Preset & { readonly type: 'picture' };

/** The default image presets of the service. */
export const imagePresets: readonly ImagePreset[] = defaultPresets.filter(
  (preset): preset is ImagePreset => preset.type === 'picture' && preset.source_kinds.includes('image'),
);
