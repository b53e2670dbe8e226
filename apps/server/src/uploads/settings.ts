import { z } from 'zod';
import { commaList, type SettingsOf, setting, wholeNumber } from '../base/settings.ts';

/** A web origin (RFC 6454) as browsers send it: scheme, host and port, in lower case and nothing behind. */
const webOrigin = z
  .string()
  .refine(
    (text) => URL.canParse(text) && new URL(text).origin === text && /^https?:/.test(text),
    'must be origins such as https://app.example.org, separated by commas',
  );

export const uploadSettings = {
  /** Resumable uploads that a token may have open at once. */
  maxOpenUploads: setting('MDS_MAX_OPEN_UPLOADS', wholeNumber(1, 1_000_000).default(2000)),
  /** How long an upload is kept after its last byte, in seconds. */
  uploadExpiryS: setting('MDS_UPLOAD_EXPIRY_S', wholeNumber(1, 31_536_000).default(86_400)),
  /** Origins whose pages may upload from a browser. */
  uploadOrigins: setting('MDS_UPLOAD_ORIGINS', commaList(webOrigin).default([])),
};
export type UploadSettings = SettingsOf<typeof uploadSettings>;
