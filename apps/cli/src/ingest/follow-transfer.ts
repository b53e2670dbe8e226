import { enterState, type Transfer } from '../output/progress.ts';
import { humanBytes } from '../output/quantities.ts';
import type { SendEvents } from './send-file.ts';

/** Updates a transfer, and describes what the service already has if the file is interrupted. */
export interface TransferFollower extends SendEvents {
  /** The part that the service has or continues to fetch, as a sentence without its subject; null if it has nothing. */
  partialState(): string | null;
}

const SENT_BEFORE = 'already sent, storing';

/**
 * Records the progress of a file in its transfer, for the live display.
 * @param onResumed called once with a message if an earlier run had already sent a part of the file
 */
export function followTransfer(transfer: Transfer, onResumed: (message: string) => void): TransferFollower {
  let resumable = false;
  let fetchId: string | null = null;
  let isAsking = false;
  return {
    onResumable() {
      resumable = true;
    },
    onResume(wasSent) {
      resumable = true;
      isAsking = true;
      // The service answers only after it has stored the bytes, so there is no other progress to show.
      enterState(transfer, wasSent ? SENT_BEFORE : 'asking for the offset');
      if (!wasSent) return;
      transfer.sentBytes = transfer.resumedBytes = transfer.totalBytes ?? 0;
      onResumed('was already sent and is being stored.');
    },
    onFetch(id) {
      fetchId = id;
    },
    onProgress({ sentBytes, totalBytes }) {
      if (isAsking) {
        isAsking = false;
        transfer.resumedBytes = sentBytes;
        transfer.sinceMs = Date.now();
        if (sentBytes > 0 && transfer.state !== SENT_BEFORE) onResumed(`resumes at ${humanBytes(sentBytes)}.`);
      }
      transfer.sentBytes = sentBytes;
      transfer.totalBytes = totalBytes;
      // All bytes are sent; the service still has to store them safely.
      if (sentBytes !== totalBytes) transfer.state = null;
      else if (transfer.state !== SENT_BEFORE) enterState(transfer, 'storing');
    },
    partialState() {
      const { sentBytes, totalBytes } = transfer;
      if (fetchId !== null) return `the service continues to fetch it: mds fetches get ${fetchId}`;
      if (!resumable || sentBytes === 0 || totalBytes === null) return null;
      if (sentBytes === totalBytes)
        return `all ${humanBytes(totalBytes)} are sent; run the same command to wait for it.`;
      // Bytes on the line at the end may not have arrived.
      return `about ${humanBytes(sentBytes)} of ${humanBytes(totalBytes)} are kept; run the same command to resume there.`;
    },
  };
}
