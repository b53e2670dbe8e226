import { MAX_FETCH_WAIT_S } from '@mds/contract';

/**
 * The seconds that a Prefer field asks to be waited for (RFC 7240, 2 and 4.3), {@link MAX_FETCH_WAIT_S} at most. Null where it asks for
 * nothing, or in a way that is not understood: a preference is no error.
 */
export function preferredWaitS(field: string | undefined): number | null {
  for (const preference of (field ?? '').split(',')) {
    const seconds = /^\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;|$)/i.exec(preference)?.[1];
    // Of several, the first counts.
    if (seconds !== undefined) return Math.min(MAX_FETCH_WAIT_S, Number(seconds));
  }
  return null;
}
