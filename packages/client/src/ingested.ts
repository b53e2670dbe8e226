import type { MediaDetail } from '@mds/contract';

/** The result of an ingest: of a file, of a resumable upload or from a URL. */
export interface Ingested {
  media: MediaDetail;
  /** False if the project already had these bytes; `media` is then the existing media object. */
  created: boolean;
}
