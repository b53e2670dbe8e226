import type { Client } from '@mds/client';
import { failureOf } from '../ingest/failure.ts';
import type { ServiceGate } from './service-gate.ts';

/**
 * Whether the service has a media object, however long it is away meanwhile.
 * @throws what would be the same for every media object: a token that is not accepted, an interruption
 */
export async function hasMedia(client: Client, id: string, gate: ServiceGate, signal: AbortSignal): Promise<boolean> {
  const { isNotFoundError } = await import('@mds/client');
  for (;;) {
    await gate.pass(signal);
    try {
      await client.control.media.get(id, { signal });
      gate.answered();
      return true;
    } catch (error) {
      if (isNotFoundError(error) && error.code === 'media_not_found') return false;
      const failure = signal.aborted ? null : await failureOf(error);
      if (failure?.kind !== 'service') throw error;
      gate.shut(failure.message, failure.retryAfterMs);
    }
  }
}
