import type { UploadContent } from '../upload-source.ts';
import { BodyError, type ContentSource, type Opener, readContent, releaseContent } from './content-reader.ts';

/** Parts of {@link createWindowSource}. */
export interface WindowParts {
  size: number | null;
  chunkBytes: number;
  /** Content that can be read once; null if there is `open`. */
  first: UploadContent | null;
  open: Opener | null;
}

/**
 * Content that is read once from beginning to end, with a copy of the latest request's bytes, the window: an interrupted request is sent
 * again from it. Bytes before the window are read again if the content can be reopened.
 */
export function createWindowSource({ size, chunkBytes, first, open }: WindowParts): ContentSource {
  let reader: AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> | null = null;
  /** Offset of the window in the content, and its bytes. */
  let begin = 0;
  let held: Uint8Array<ArrayBuffer>[] = [];
  let heldBytes = 0;
  let ended = false;
  if (first) preventCrash(first);

  const closeReader = () => {
    // The result of the upload is known; an error on closing does not change it.
    reader?.return().catch(() => undefined);
    reader = null;
  };

  const readFrom = (start: number) => {
    if (!reader && first) {
      reader = readContent(first, start, size);
    } else if (open) {
      closeReader();
      const { content, skipBytes } = open(start);
      preventCrash(content);
      reader = readContent(content, skipBytes, size === null ? null : size - (start - skipBytes));
    } else {
      throw new BodyError('it can be read once, and the service has less of it than it had before');
    }
    begin = start;
    held = [];
    heldBytes = 0;
    ended = false;
    return reader;
  };

  /** Drops the bytes of the window before `start`. */
  const dropBefore = (start: number) => {
    for (let piece = held[0]; piece && begin < start; piece = held[0]) {
      const dropped = Math.min(piece.byteLength, start - begin);
      begin += dropped;
      heldBytes -= dropped;
      if (dropped === piece.byteLength) held.shift();
      else held[0] = piece.subarray(dropped);
    }
  };

  return {
    size,
    reopenable: open !== null,
    chunkBytes,
    async slice(start, end) {
      let from = reader;
      if (!from || start < begin) from = readFrom(start);
      // One extra byte shows whether this is the end.
      for (dropBefore(start); !ended && begin + heldBytes <= end; dropBefore(start)) {
        const { done, value } = await from.next();
        if (done) ended = true;
        else {
          // A source may reuse its buffer for the next piece.
          held.push(value.slice());
          heldBytes += value.byteLength;
        }
      }
      if (begin < start) throw new BodyError(`it ended after ${begin} bytes, and the service has ${start} already`);
      const value = new Blob(held).slice(0, end - start);
      return { value, done: ended && heldBytes <= end - start };
    },
    close() {
      closeReader();
      if (first) releaseContent(first);
    },
  };
}

/** Without a listener, a Node stream that fails before it is read would crash the process. The reader gets the same error. */
function preventCrash(content: UploadContent): void {
  if ('on' in content && typeof content.on === 'function') content.on('error', () => undefined);
}
