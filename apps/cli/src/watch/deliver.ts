import { setTimeout as delay } from 'node:timers/promises';
import { type Failure, failureOf } from '../ingest/failure.ts';
import type { IngestFile } from '../ingest/find-files.ts';
import { followTransfer } from '../ingest/follow-transfer.ts';
import { type IngestOutcome, outcomeOf } from '../ingest/ingest-files.ts';
import type { SendFile } from '../ingest/send-file.ts';
import { enterState, type Transfer } from '../output/progress.ts';
import type { ServiceGate } from './service-gate.ts';

/** What became of a file that was to be sent. */
export type Delivery =
  | { kind: 'accepted'; outcome: IngestOutcome }
  | { kind: 'refused'; outcome: IngestOutcome }
  /** It could not be read, or was being written to: it is looked at again. */
  | { kind: 'later'; outcome: IngestOutcome; failure: Failure & { kind: 'source' } };

/** An answer that speaks of a fault is asked for so often before the file is taken to be the reason. */
const MAX_FAULTS = 4;

/**
 * Sends a file, however long the service is away meanwhile.
 * `stop`: no attempt is begun any more; `cut`: the one under way ends, too.
 * @throws what would be the same for every file: a token that is not accepted, an interruption
 */
export async function deliver(
  send: SendFile,
  file: IngestFile,
  transfer: Transfer,
  gate: ServiceGate,
  { stop, cut }: { stop: AbortSignal; cut: AbortSignal },
): Promise<Delivery> {
  for (let faults = 0; ; ) {
    await gate.pass(stop);
    stop.throwIfAborted();
    try {
      const { media, created } = await send(file, {
        signal: cut,
        // Who watches sees it in the transfer.
        ...followTransfer(transfer, () => undefined),
      });
      gate.answered();
      return { kind: 'accepted', outcome: outcomeOf(file, created ? 'created' : 'existing', media) };
    } catch (error) {
      if (cut.aborted) throw error;
      const failure = await failureOf(error);
      if (failure === null || failure.kind === 'token') throw error;
      if (failure.kind === 'source')
        return { kind: 'later', outcome: outcomeOf(file, 'failed', null, failure), failure };
      if (failure.kind === 'service') {
        enterState(transfer, 'waiting for the service');
        gate.shut(failure.message, failure.retryAfterMs);
        continue;
      }
      gate.answered();
      if (failure.kind === 'refused' || ++faults >= MAX_FAULTS) {
        return { kind: 'refused', outcome: outcomeOf(file, 'failed', null, failure) };
      }
      await delay(faults * 1_000, undefined, { signal: stop });
    }
  }
}
