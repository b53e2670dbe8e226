import type { Client } from '@mds/client';
import { CliError } from './exit-codes.ts';

/** Between two looks at whether the deployment was moved. */
const LOOK_MS = 15_000;

/** What to do where the deployment was moved, one line each. */
export const MOVED_ADVICE: readonly string[] = [
  'Give the address of the new service with --url or MDS_URL.',
  'What it was moved to, and how to take that back: mds migrate-to --status, mds migrate-to --cancel',
];

/** Looks at whether the deployment is moved away from under what is waited for. */
export interface MoveLookout {
  /** Aborted with the given signal, and with a CliError once the deployment was moved. */
  readonly signal: AbortSignal;
  stop(): void;
}

/**
 * Looks every now and then whether the deployment was moved: what was accepted before goes on at the new service, and who waits for it at
 * the old one, which answers reads, would wait for ever. Whoever's token may not look goes on waiting.
 */
export function lookOutForMove(client: Client, signal: AbortSignal): MoveLookout {
  const moved = new AbortController();
  const over = new AbortController();
  const either = AbortSignal.any([signal, moved.signal]);
  let looking = false;
  const look = async () => {
    if (looking) return;
    looking = true;
    const { isAuthError } = await import('@mds/client');
    try {
      const { state } = await client.control.migrations.current({ signal: AbortSignal.any([either, over.signal]) });
      if (state === 'done') moved.abort(deploymentMoved());
    } catch (error) {
      // Of anything else but that none was begun, what is waited for hears, too. One may be begun yet.
      if (isAuthError(error)) clearInterval(timer);
    } finally {
      looking = false;
    }
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return {
    signal: either,
    stop() {
      clearInterval(timer);
      over.abort();
    },
  };
}

/** In the words in which the service refuses writes then. */
function deploymentMoved(): CliError {
  return new CliError(
    'The deployment was moved to another database and storage, and this service takes no writes any more. What it has accepted goes on at the service that was started there; its operator knows the address. (deployment_moved)',
    { hints: MOVED_ADVICE },
  );
}
