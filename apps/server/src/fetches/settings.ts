import { z } from 'zod';
import { commaList, type SettingsOf, setting, wholeNumber } from '../base/settings.ts';
import { allowRuleOf } from './address-filter.ts';

const allowEntry = z.string().refine((entry) => allowRuleOf(entry) !== null, {
  error: ({ input }) =>
    `must be addresses, ranges such as 10.0.0.0/8, and host names without port, separated by commas; ${JSON.stringify(input)} is none`,
});

export const fetchSettings = {
  /** Ranges, addresses and names that may be fetched from although they are not public. */
  fetchAllow: setting('MDS_FETCH_ALLOW', commaList(allowEntry).default([])),
  fetchConcurrency: setting('MDS_FETCH_CONCURRENCY', wholeNumber(1, 256).default(4)),
  /** Time limit of all attempts of a fetch together, in seconds. */
  fetchTimeoutS: setting('MDS_FETCH_TIMEOUT_S', wholeNumber(1, 7 * 86_400).default(6 * 3600)),
};
export type FetchSettings = SettingsOf<typeof fetchSettings>;
