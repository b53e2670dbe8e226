import { httpUrl, optional, type SettingsOf, setting } from '../base/settings.ts';

export const edgeSettings = {
  /** The service that a point of presence belongs to. */
  originUrl: setting('MDS_ORIGIN_URL', optional(httpUrl)),
};
export type EdgeSettings = SettingsOf<typeof edgeSettings>;
