import type { Readable } from 'node:stream';
import { TUS_EXTENSIONS } from '@mds/contract';
import { DataStore, Upload } from '@tus/server';
import { AppError } from '../base/app-error.ts';
import type { UploadRecord, UploadRepository } from '../db/upload-repository.ts';
import type { UploadCompletion } from './upload-completion.ts';
import type { UploadFiles } from './upload-files.ts';
import type { UploadLocker } from './upload-locker.ts';
import {
  endedProblem,
  isTooLong,
  lengthExceeded,
  noSuchUpload,
  offsetConflict,
  storageFullProblem,
} from './upload-problems.ts';
import type { Progress, UploadProgress } from './upload-progress.ts';

export interface UploadStoreParts {
  uploads: Pick<UploadRepository, 'find' | 'declareLength' | 'postpone'>;
  files: UploadFiles;
  progress: UploadProgress;
  completion: UploadCompletion;
  locker: Pick<UploadLocker, 'confirm' | 'tenure'>;
  /** How long an upload is kept after its last byte, in milliseconds. */
  expiryMs: number;
  onBytes(count: number): void;
}

/**
 * The data store of the tus library: bytes in {@link UploadFiles}, everything else in the database. Every method is called under the
 * upload's lock. Acknowledged bytes are durable: an offset is returned after its bytes were written, and the last one after the file
 * has become a media object.
 */
export class UploadStore extends DataStore {
  readonly #parts: UploadStoreParts;
  readonly #writing = new Map<string, Promise<unknown>>();
  /** Sizes of uploads by the tenure of the lock in which they were read: asking the store may be expensive. */
  readonly #sizes = new WeakMap<object, number>();

  constructor(parts: UploadStoreParts) {
    super();
    this.#parts = parts;
    this.extensions = [...TUS_EXTENSIONS];
  }

  /** Returns the state of an upload. If it is complete but not accepted yet, after a crash or a lost answer, it is accepted first. */
  override async getUpload(id: string): Promise<Upload> {
    const { record, size } = await this.#take(id);
    if (record.state !== 'open') return uploadOf(record, record.length ?? 0);
    if (record.length === size) await this.#parts.completion.complete(record, size);
    return uploadOf(record, size);
  }

  override async declareUploadLength(id: string, length: number): Promise<void> {
    const { record, size } = await this.#take(id);
    await this.#parts.progress.of(record, size).room.grow(length);
    if (!(await this.#parts.uploads.declareLength(id, length))) throw noSuchUpload();
  }

  /** Ends an upload. One that has become a media object cannot be ended. */
  override async remove(id: string): Promise<void> {
    const { record } = await this.#take(id);
    if (record.state === 'accepted') {
      const detail = `The upload has become the media object ${record.mediaId}. Delete that to have it gone.`;
      throw new AppError('state_conflict', detail);
    }
    await this.#parts.completion.discard(id, { state: 'terminated' });
  }

  /** Adds a body to the file. @returns the offset after it */
  override async write(body: Readable, id: string, offset: number): Promise<number> {
    const writing = this.#write(body, id, offset);
    this.#writing.set(id, writing);
    return writing.finally(() => this.#writing.delete(id));
  }

  /**
   * Resolves when no write to an upload is under way. A stream that fails in a pipeline does not wait for its reader: without this, the
   * library would release the lock while bytes are still written.
   */
  async settled(id: string): Promise<void> {
    await this.#writing.get(id)?.catch(() => undefined);
  }

  async #write(body: Readable, id: string, offset: number): Promise<number> {
    const { uploads, progress, completion, expiryMs } = this.#parts;
    const { record, size } = await this.#take(id);
    if (record.state !== 'open') {
      for await (const _ of body) throw lengthExceeded();
      return record.length ?? 0;
    }
    if (size !== offset) throw offsetConflict();
    const end = await this.#append(body, id, offset, progress.of(record, size));
    await uploads.postpone(id, Date.now() + expiryMs);
    if (end === record.length) await completion.complete(record, end);
    return end;
  }

  async #take(id: string): Promise<{ record: UploadRecord; size: number }> {
    const record = await this.#parts.uploads.find(id);
    if (record === null) throw noSuchUpload();
    const ended = endedProblem(record.expiresAtMs > Date.now() ? record : { ...record, state: expired(record) });
    if (ended) throw ended;
    return { record, size: record.state === 'open' ? await this.#sizeOf(id) : 0 };
  }

  async #sizeOf(id: string): Promise<number> {
    const tenure = this.#parts.locker.tenure(id);
    const known = tenure && this.#sizes.get(tenure);
    if (typeof known === 'number') return known;
    const size = await this.#parts.files.size(id);
    if (tenure) this.#sizes.set(tenure, size);
    return size;
  }

  async #append(body: Readable, id: string, offset: number, progress: Progress): Promise<number> {
    const { files, locker } = this.#parts;
    // From here on the size is unknown until the write has ended.
    const tenure = locker.tenure(id);
    if (tenure) this.#sizes.delete(tenure);
    let end = offset;
    let written = offset;
    const writer = await files.append(id, offset, {
      confirm: () => locker.confirm(id),
      onWritten: (bytes) => {
        written += bytes;
        progress.room.wrote(written);
        this.#parts.onBytes(bytes);
      },
      onReadable: (to) => progress.hash.follow(to),
    });
    try {
      // If we destroyed the body, it would fail as if its sender had aborted it, and the library would report that instead.
      for await (const piece of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        await locker.confirm(id);
        await progress.room.grow(end + piece.length);
        await writer.take(piece);
        end += piece.length;
      }
      await writer.commit();
      return end;
    } catch (error) {
      await writer.halt();
      // The hash may include bytes that the file is about to lose.
      progress.hash.forget();
      // If the lock is lost, the bytes belong to its new holder.
      await locker.confirm(id);
      // It is unknown which bytes of a body that is too long belong to the file: none is kept.
      if (isTooLong(error)) await writer.revert();
      else await writer.keep();
      throw isTooLong(error) ? error : storageFullProblem(error);
    } finally {
      await writer.close();
    }
  }
}

/** An open upload past its expiry is over, even if it was not removed yet. */
function expired({ state }: UploadRecord): UploadRecord['state'] {
  return state === 'open' ? 'expired' : state;
}

function uploadOf({ id, length, metadata }: UploadRecord, offset: number): Upload {
  return new Upload({
    id,
    offset,
    ...(length === null ? {} : { size: length }),
    ...(metadata === null ? {} : { metadata }),
  });
}
