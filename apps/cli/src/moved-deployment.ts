import type { Client } from '@mds/client';
import { CliError } from './exit-codes.ts';

/** Time between two checks whether the deployment was moved. */
const CHECK_MS = 15_000;

/** Hints for the user if the deployment was moved, one line each. */
export const MOVED_ADVICE: readonly string[] = [
  'Give the address of the new service with --url or MDS_URL.',
  'To see the destination: mds migrate-to --status. To cancel the move: mds migrate-to --cancel',
];

/** Checks during a long wait whether the deployment was moved. */
export interface MoveWatch {
  /** Aborted with the given signal, or with a CliError once the deployment was moved. */
  readonly signal: AbortSignal;
  stop(): void;
}

/**
 * Checks from time to time whether the deployment was moved. After a move the new service continues the accepted work, and
 * a client that waits at the old one would wait for ever. If the token may not see moves, the checks stop.
 */
export function watchForMove(client: Client, signal: AbortSignal): MoveWatch {
  const moved = new AbortController();
  const stopped = new AbortController();
  const either = AbortSignal.any([signal, moved.signal]);
  let isChecking = false;
  const check = async () => {
    if (isChecking) return;
    isChecking = true;
    const { isAuthError } = await import('@mds/client');
    try {
      const { state } = await client.control.migrations.current({ signal: AbortSignal.any([either, stopped.signal]) });
      if (state === 'done') moved.abort(movedError());
    } catch (error) {
      // Any other error will end the wait itself. If no move was started, one may start later.
      if (isAuthError(error)) clearInterval(timer);
    } finally {
      isChecking = false;
    }
  };
  const timer = setInterval(() => void check(), CHECK_MS);
  return {
    signal: either,
    stop() {
      clearInterval(timer);
      stopped.abort();
    },
  };
}

/** The error for a move, in the words of the service when it refuses a write. */
function movedError(): CliError {
  return new CliError(
    'The deployment was moved to another database and storage, and this service accepts no more writes. The new service continues the accepted work; its operator knows the address. (deployment_moved)',
    { hints: MOVED_ADVICE },
  );
}
