import { type SettingsOf, setting, wholeNumber } from '../base/settings.ts';

export const controlApiSettings = {
  /** Requests of the control API that a token may make in a minute; 0: any number. */
  rateLimit: setting('MDS_RATE_LIMIT', wholeNumber(0, 1_000_000_000).default(0)),
};
export type ControlApiSettings = SettingsOf<typeof controlApiSettings>;
