import { z } from 'zod';
import { type SettingsOf, setting } from '../base/settings.ts';
import { resolveRegion, UnknownRegionError } from './region-setting.ts';

/** A city of the catalogue, or the description of a place. */
const region = z
  .string()
  .regex(
    /^[a-z]{2,8}[0-9](:[^:]{1,64}:[a-z]+-[a-z]+:[A-Z]{2})?$/,
    'must be a region code such as fra1, or code:City:area-direction:CC',
  )
  .transform((text, context) => {
    try {
      resolveRegion(text);
    } catch (error) {
      if (!(error instanceof UnknownRegionError)) throw error;
      context.addIssue({ code: 'custom', message: error.message });
    }
    return text;
  });

export const regionSettings = {
  /** {@link resolveRegion} makes it a place. */
  region: setting('MDS_REGION', region.default('fra1')),
};
export type RegionSettings = SettingsOf<typeof regionSettings>;
