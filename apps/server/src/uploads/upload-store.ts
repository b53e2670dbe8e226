import type { Readable } from 'node:stream';
import { TUS_EXTENSIONS } from '@mds/contract';
import { DataStore, Upload } from '@tus/server';
import { AppError } from '../base/app-error.ts';
import type { UploadRecord, UploadRepository } from '../db/upload-repository.ts';
import type { UploadCompletion } from './upload-completion.ts';
import type { UploadFiles } from './upload-files.ts';
import type { UploadLocker } from './upload-locker.ts';
import { beyondLength, isOverrun, noSuchUpload, offsetConflict, overProblem, roomError } from './upload-problems.ts';
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
 * Where the protocol's handlers keep uploads: bytes in {@link UploadFiles}, everything else in the database. Every method is called under
 * the upload's lock. What is acknowledged is kept for good: each write is before its offset is told, and the last one is told when the
 * file has become a media object.
 */
export class UploadStore extends DataStore {
  readonly #parts: UploadStoreParts;
  readonly #writing = new Map<string, Promise<unknown>>();
  /** Sizes of uploads by the tenure of their lock in which they were found out: asking where the bytes are may be dear. */
  readonly #sizes = new WeakMap<object, number>();

  constructor(parts: UploadStoreParts) {
    super();
    this.#parts = parts;
    this.extensions = [...TUS_EXTENSIONS];
  }

  /** Where an upload stands. One that is whole and not accepted yet, for a crash or a lost answer, is accepted first. */
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

  /** Ends an upload; one that has become a media object is none any more. */
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
   * Resolves when nothing is being written to an upload. A stream that fails in the middle of a pipeline does not wait for who reads from
   * it, so that the library would give the lock back while bytes are still being put away.
   */
  async settled(id: string): Promise<void> {
    await this.#writing.get(id)?.catch(() => undefined);
  }

  async #write(body: Readable, id: string, offset: number): Promise<number> {
    const { uploads, progress, completion, expiryMs } = this.#parts;
    const { record, size } = await this.#take(id);
    if (record.state !== 'open') {
      for await (const _ of body) throw beyondLength();
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
    const over = overProblem(record.expiresAtMs > Date.now() ? record : { ...record, state: expired(record) });
    if (over) throw over;
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
    // From here on only who has written to the end knows it.
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
      // Destroyed by us, the body would fail as if its sender had broken it off, and the library would tell that instead.
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
      // It may have seen bytes that the file is about to lose.
      progress.hash.forget();
      // Who lost the lock leaves the bytes to whoever has it now.
      await locker.confirm(id);
      // Which bytes of a body that is too long belong to the file nobody knows: it stands where it stood.
      if (isOverrun(error)) await writer.undo();
      else await writer.keep();
      throw isOverrun(error) ? error : roomError(error);
    } finally {
      await writer.close();
    }
  }
}

/** An upload that was never finished in its time is over, whether or not it has been cleared away. */
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
