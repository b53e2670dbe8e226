import { defaultPresets, type Preset } from '@mds/transcode';

/** A preset that makes a picture of an image, as its peers can. */
export type ImagePreset = Preset & { readonly type: 'picture' };

/** What the service makes of every image unless told otherwise. */
export const imagePresets: readonly ImagePreset[] = defaultPresets.filter(
  (preset): preset is ImagePreset => preset.type === 'picture' && preset.source_kinds.includes('image'),
);
