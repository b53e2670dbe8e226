import { addAbortSignal } from 'node:stream';
import type { ObjectStore } from '../../../storage/object-store.ts';
import { type ObjectOrigin, OriginUnavailableError } from '../../object-origin.ts';
import { ObjectDamagedError } from '../../verified-body.ts';

/** Makes an {@link ObjectOrigin} over any object store. Its objects are read through the cache, like those of a remote origin. */
export function createStoredObjectOrigin({ store }: { store: Pick<ObjectStore, 'read'> }): ObjectOrigin {
  return {
    isStore: true,
    localFile: async () => null,

    async read(object, { start, end }, signal) {
      const reading = store.read(object.key, { start, end });
      const found = await untilAborted(reading, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        throw new OriginUnavailableError('The object storage does not send the object.', { cause: error });
      });
      if (found === null) return null;
      if (found.bytes !== end - start + 1) {
        found.stream.destroy();
        throw new ObjectDamagedError(object, `has ${found.bytes} bytes where ${end - start + 1} were recorded`);
      }
      return addAbortSignal(signal, found.stream);
    },
  };
}

/** Waits until the signal aborts. A stream that arrives later is closed. */
async function untilAborted(
  reading: ReturnType<ObjectStore['read']>,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<ObjectStore['read']>>> {
  let abort: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([reading, aborted]);
  } catch (error) {
    if (signal.aborted)
      reading.then(
        (late) => late?.stream.destroy(),
        () => undefined,
      );
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
