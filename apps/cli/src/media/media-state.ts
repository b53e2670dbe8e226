import type { MediaDetail } from '@mds/client';
import { percent } from '../output/quantities.ts';

/** The state of a medium for people: `ready`, `processing 42%`. */
export function stateOf({ status, progress }: Pick<MediaDetail, 'status' | 'progress'>): string {
  // A service older than this command does not say how far it is.
  return typeof progress === 'number' ? `${status} ${percent(progress)}` : status;
}
