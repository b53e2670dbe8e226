import { setTimeout as delay } from 'node:timers/promises';
import { type Failure, failureOf } from '../ingest/failure.ts';
import type { IngestFile } from '../ingest/find-files.ts';
import { followTransfer } from '../ingest/follow-transfer.ts';
import { type IngestOutcome, outcomeOf } from '../ingest/ingest-files.ts';
import type { SendFile } from '../ingest/send-file.ts';
import { enterState, type Transfer } from '../output/progress.ts';
import type { ServiceGate } from './service-gate.ts';

/** The result of sending a file. */
export type Delivery =
  | { kind: 'accepted'; outcome: IngestOutcome }
  | { kind: 'refused'; outcome: IngestOutcome }
  /** It could not be read, or was being written to. It is inspected again. */
  | { kind: 'later'; outcome: IngestOutcome; failure: Failure & { kind: 'source' } };

/** After this many answers that report a fault, the file counts as its cause. */
const MAX_FAULTS = 4;

/**
 * Sends a file, and waits while the service is away.
 * `stop`: start no more attempts; `cut`: end the running attempt too.
 * @throws errors that every file would meet: a refused token, an interruption
 */
export async function deliver(
  send: SendFile,
  file: IngestFile,
  transfer: Transfer,
  gate: ServiceGate,
  { stop, cut }: { stop: AbortSignal; cut: AbortSignal },
): Promise<Delivery> {
  for (let faults = 0; ; ) {
    await gate.waitUntilOpen(stop);
    stop.throwIfAborted();
    try {
      const { media, created } = await send(file, {
        signal: cut,
        // The live display reads the transfer.
        ...followTransfer(transfer, () => undefined),
      });
      gate.open();
      return { kind: 'accepted', outcome: outcomeOf(file, created ? 'created' : 'existing', media) };
    } catch (error) {
      if (cut.aborted) throw error;
      const failure = await failureOf(error);
      if (failure === null || failure.kind === 'token') throw error;
      if (failure.kind === 'source')
        return { kind: 'later', outcome: outcomeOf(file, 'failed', null, failure), failure };
      if (failure.kind === 'service') {
        enterState(transfer, 'waiting for the service');
        gate.close(failure.message, failure.retryAfterMs);
        continue;
      }
      gate.open();
      if (failure.kind === 'refused' || ++faults >= MAX_FAULTS) {
        return { kind: 'refused', outcome: outcomeOf(file, 'failed', null, failure) };
      }
      await delay(faults * 1_000, undefined, { signal: stop });
    }
  }
}
