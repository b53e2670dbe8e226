import type { FileHandle } from 'node:fs/promises';

/** Bytes that may wait to be written: of all files together, and of one. */
const AHEAD_BYTES = 16 * 1024 * 1024;
const AHEAD_BYTES_OF_ONE = 1024 * 1024;
/** A sync is begun beside the writes after every so many bytes: the final sync of a large file need not write all of it. */
const SYNCED_BYTES = 64 * 1024 * 1024;
/** Well below what one `writev` takes (IOV_MAX of POSIX.1-2017; on Linux: 1024). */
const AHEAD_PIECES = 256;

/** Writes one file piece by piece. Pieces that come during a write go out together with the next. */
export interface PieceWriter {
  /**
   * Takes the next piece, whose bytes belong to the writer until they are written. Writes them now or soon.
   * @returns when another piece may come
   * @throws the failure of an earlier write; nothing more is written then
   */
  take(piece: Uint8Array): Promise<void>;
  /** Waits until all pieces are written. @throws the failure of a write */
  finish(): Promise<void>;
  /** Releases the writer and waits for writes under way. A failure was reported before, or no longer matters. May be called again. */
  close(): Promise<void>;
}

/** Makes writers. There is one for the whole process, because all files share its bound on memory. */
export interface PieceWriting {
  /**
   * @param position where the first piece goes
   * @param onWritten called for each written stretch, in order, with its length in bytes
   */
  begin(file: FileHandle, position: number, onWritten: (bytes: number) => void): PieceWriter;
}

/**
 * Makes a {@link PieceWriting}. On a fast network, pieces of 64 KiB come faster than they can be handed to another thread one by one.
 * Many files share what may wait: each of a thousand waits for its own write before it takes more.
 */
export function createPieceWriting({ aheadBytes = AHEAD_BYTES }: { aheadBytes?: number } = {}): PieceWriting {
  let writers = 0;

  return {
    begin(file, position, onWritten) {
      let at = position;
      let waiting: Uint8Array[] = [];
      let waitingBytes = 0;
      /** Bytes of the write under way. */
      let batchBytes = 0;
      /** The write under way. */
      let batch: Promise<void> | undefined;
      /** The loop that writes until nothing waits. */
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
          // The pieces that wait now are the next batch, which begins when this one ends.
          await batch?.catch(() => undefined);
          refuseFailed();
        },
        async finish() {
          await underWay;
          // The system reports a failed sync once: it must be reported here, before anyone relies on the bytes.
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

/** Writes all bytes: one `writev` may take only a part of them. */
async function writeAll(file: FileHandle, pieces: Uint8Array[], bytes: number, position: number): Promise<void> {
  let { bytesWritten: written } = await file.writev(pieces, position);
  if (written === bytes) return;
  const whole = Buffer.concat(pieces);
  while (written < bytes) {
    const { bytesWritten } = await file.write(whole, written, bytes - written, position + written);
    written += bytesWritten;
  }
}
