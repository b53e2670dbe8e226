import type { FileHandle } from 'node:fs/promises';

/** What may wait to be written of all files together, in bytes, and of one of them. */
const AHEAD_BYTES = 16 * 1024 * 1024;
const AHEAD_BYTES_OF_ONE = 1024 * 1024;
/** A sync is begun beside the writing each time so many bytes have been written: whoever syncs a large file in the end need not wait for all of it. */
const SYNCED_BYTES = 64 * 1024 * 1024;
/** Well below the least that a system takes in one `writev` (IOV_MAX of POSIX.1-2017 on Linux: 1024). */
const AHEAD_PIECES = 256;

/** Writes one file piece after piece. What comes while a write is under way goes out with the next, in one. */
export interface PieceWriter {
  /**
   * Takes the next piece, whose bytes belong to the writer until they are written. Begins to write them now or soon.
   * @returns when another piece may come
   * @throws what writing an earlier one failed with; nothing more is written then
   */
  take(piece: Uint8Array): Promise<void>;
  /** Waits for all that was taken to be written. @throws what writing failed with */
  finish(): Promise<void>;
  /** Lets the writer go and waits until nothing is written any more; what failed has been told, or does not matter now. May be called again. */
  close(): Promise<void>;
}

/** Begins files; one for the whole process, so that its bound on memory is one for all files. */
export interface PieceWriting {
  /**
   * @param position where the first piece goes
   * @param onWritten told of each stretch, in order, with its length in bytes
   */
  begin(file: FileHandle, position: number, onWritten: (bytes: number) => void): PieceWriter;
}

/**
 * Makes a {@link PieceWriting}. A sender on a fast network brings pieces of 64 KiB faster than they can be handed to another thread one by
 * one. Many files at once share what may wait, so that each of a thousand waits for its own write before it takes more.
 */
export function createPieceWriting({ aheadBytes = AHEAD_BYTES }: { aheadBytes?: number } = {}): PieceWriting {
  let writers = 0;

  return {
    begin(file, position, onWritten) {
      let at = position;
      let waiting: Uint8Array[] = [];
      let waitingBytes = 0;
      /** Being written. */
      let batchBytes = 0;
      /** One write. */
      let batch: Promise<void> | undefined;
      /** Writes, one after another, until nothing waits. */
      let underWay: Promise<void> | undefined;
      let syncing: Promise<void> | undefined;
      let unsynced = 0;
      let failure: { error: unknown } | undefined;
      let closed = false;
      writers += 1;

      const run = async () => {
        try {
          while (waiting.length > 0) {
            const pieces = waiting;
            const bytes = waitingBytes;
            waiting = [];
            waitingBytes = 0;
            batchBytes = bytes;
            batch = writeAll(file, pieces, bytes, at);
            await batch;
            batchBytes = 0;
            at += bytes;
            onWritten(bytes);
            unsynced += bytes;
            if (unsynced >= SYNCED_BYTES && syncing === undefined) startSync();
          }
        } catch (error) {
          fail(error);
        } finally {
          underWay = undefined;
        }
      };
      const startSync = () => {
        unsynced = 0;
        syncing = file
          .datasync()
          .catch(fail)
          .finally(() => {
            syncing = undefined;
          });
      };
      const fail = (error: unknown) => {
        failure ??= { error };
      };
      const refuseFailed = () => {
        if (failure) throw failure.error;
      };

      return {
        async take(piece) {
          refuseFailed();
          waiting.push(piece);
          waitingBytes += piece.length;
          underWay ??= run();
          const most = Math.min(AHEAD_BYTES_OF_ONE, aheadBytes / writers);
          if (waitingBytes + batchBytes < most && waiting.length < AHEAD_PIECES) return;
          // What waits now is the next batch, which begins when this one ends.
          await batch?.catch(() => undefined);
          refuseFailed();
        },
        async finish() {
          await underWay;
          // A system tells a failure to sync once: it must not be told to somebody who has gone on.
          await syncing;
          refuseFailed();
        },
        async close() {
          if (!closed) writers -= 1;
          closed = true;
          await underWay;
          await syncing;
        },
      };
    },
  };
}

/** A write may take only a part of what it is given. */
async function writeAll(file: FileHandle, pieces: Uint8Array[], bytes: number, position: number): Promise<void> {
  let { bytesWritten: written } = await file.writev(pieces, position);
  if (written === bytes) return;
  const whole = Buffer.concat(pieces);
  while (written < bytes) {
    const { bytesWritten } = await file.write(whole, written, bytes - written, position + written);
    written += bytesWritten;
  }
}
