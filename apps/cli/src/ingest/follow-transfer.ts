import { enterState, type Transfer } from '../output/progress.ts';
import { humanBytes } from '../output/quantities.ts';
import type { SendEvents } from './send-file.ts';

/** What is left of a file that was not done when it was stopped. */
export interface Following extends SendEvents {
  /** What the service has of it, or goes on with, as a sentence without its subject; null where there is nothing. */
  left(): string | null;
}

const SENT_BEFORE = 'sent before, storing';

/**
 * Takes what is told of a file on its way down in its transfer, for those who show that.
 * @param onGoesOn called once where an earlier run of the program had sent some of it; what is then to be said of the file
 */
export function followTransfer(transfer: Transfer, onGoesOn: (words: string) => void): Following {
  let resumable = false;
  let fetchId: string | null = null;
  let asking = false;
  return {
    onKept() {
      resumable = true;
    },
    onGoingOn(wasSent) {
      resumable = true;
      asking = true;
      // The service answers when it has stored what is there: until then there is nothing else to show.
      enterState(transfer, wasSent ? SENT_BEFORE : 'asking how far it is');
      if (!wasSent) return;
      transfer.sentBytes = transfer.resumedBytes = transfer.totalBytes ?? 0;
      onGoesOn('is sent already, and is being stored.');
    },
    onFetch(id) {
      fetchId = id;
    },
    onProgress({ sentBytes, totalBytes }) {
      if (asking) {
        asking = false;
        transfer.resumedBytes = sentBytes;
        transfer.sinceMs = Date.now();
        if (sentBytes > 0 && transfer.state !== SENT_BEFORE) onGoesOn(`goes on at ${humanBytes(sentBytes)}.`);
      }
      transfer.sentBytes = sentBytes;
      transfer.totalBytes = totalBytes;
      // Everything is out; now it is made safe over there.
      if (sentBytes !== totalBytes) transfer.state = null;
      else if (transfer.state !== SENT_BEFORE) enterState(transfer, 'storing');
    },
    left() {
      const { sentBytes, totalBytes } = transfer;
      if (fetchId !== null) return `the service goes on with it: mds fetches get ${fetchId}`;
      if (!resumable || sentBytes === 0 || totalBytes === null) return null;
      if (sentBytes === totalBytes) return `all ${humanBytes(totalBytes)} are sent; the same command waits for it.`;
      // What was on the line when it ended may not have come.
      return `about ${humanBytes(sentBytes)} of ${humanBytes(totalBytes)} are kept; the same command goes on there.`;
    },
  };
}
