import type { UploadContent } from '../upload-source.ts';
import { BodyError, type ContentSource, type Opener, readContent, releaseContent } from './content-reader.ts';

/** What a {@link createWindowSource} reads from. */
export interface WindowParts {
  size: number | null;
  chunkBytes: number;
  /** Content that can be read once; null where `open` gives it. */
  first: UploadContent | null;
  open: Opener | null;
}

/**
 * Content that is read once, from its beginning to its end, with a window over what the latest request took: a request that
 * was cut is sent again from there. What lies before the window is read anew where the content can be opened again.
 */
export function createWindowSource({ size, chunkBytes, first, open }: WindowParts): ContentSource {
  let reader: AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> | null = null;
  /** Where in the content the window begins, and what is in it. */
  let begin = 0;
  let held: Uint8Array<ArrayBuffer>[] = [];
  let heldBytes = 0;
  let ended = false;
  if (first) guard(first);

  const letGo = () => {
    // How the upload went is known by then; nothing that the content says on being closed changes that.
    reader?.return().catch(() => undefined);
    reader = null;
  };

  const readFrom = (start: number) => {
    if (!reader && first) {
      reader = readContent(first, start, size);
    } else if (open) {
      letGo();
      const { content, skipBytes } = open(start);
      guard(content);
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

  /** Drops what lies before `start`, as far as it is there. */
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
      // One byte more than wanted tells whether it is the end.
      for (dropBefore(start); !ended && begin + heldBytes <= end; dropBefore(start)) {
        const { done, value } = await from.next();
        if (done) ended = true;
        else {
          // A source may use its buffer again for what comes next.
          held.push(value.slice());
          heldBytes += value.byteLength;
        }
      }
      if (begin < start) throw new BodyError(`it ended after ${begin} bytes, and the service has ${start} already`);
      const value = new Blob(held).slice(0, end - start);
      return { value, done: ended && heldBytes <= end - start };
    },
    close() {
      letGo();
      if (first) releaseContent(first);
    },
  };
}

/** A stream of Node's that fails before it is read would end the program; who reads it hears of it all the same. */
function guard(content: UploadContent): void {
  if ('on' in content && typeof content.on === 'function') content.on('error', () => undefined);
}
