import type { Client } from '@mds/client';
import { failureOf } from '../ingest/failure.ts';
import type { ServiceGate } from './service-gate.ts';

/**
 * Asks whether the service has a media object, and waits while the service is away.
 * @throws errors that every media object would meet: a refused token, an interruption
 */
export async function hasMedia(client: Client, id: string, gate: ServiceGate, signal: AbortSignal): Promise<boolean> {
  const { isNotFoundError } = await import('@mds/client');
  for (;;) {
    await gate.waitUntilOpen(signal);
    try {
      await client.control.media.get(id, { signal });
      gate.open();
      return true;
    } catch (error) {
      if (isNotFoundError(error) && error.code === 'media_not_found') return false;
      const failure = signal.aborted ? null : await failureOf(error);
      if (failure?.kind !== 'service') throw error;
      gate.close(failure.message, failure.retryAfterMs);
    }
  }
}
