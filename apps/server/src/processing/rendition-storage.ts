import { isRenditionFile, renditionPath } from '@mds/contract';
import type { PlannedRendition, ReadyRendition } from '@mds/transcode';
import { renditionFileKey, renditionKey } from '../base/object-key.ts';
import type { Lease } from '../db/job-queue.ts';
import type {
  MediaRecord,
  MediaRepository,
  NewRendition,
  NewRenditionFile,
  RenditionFileRecord,
} from '../db/media-repository.ts';
import type { PieceDigestRepository } from '../db/piece-digest-repository.ts';
import { hashStream } from '../storage/hash-stream.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { hashFile } from './hash-file.ts';
import { ProcessingError } from './processing-error.ts';

/** Files that are put at once: each waits for the disk twice. */
const PUTS_AT_ONCE = 8;

/** A rendition that is made and in the store. */
export interface StoredRendition {
  row: NewRendition;
  /** Its files, if it consists of several. */
  files: NewRenditionFile[];
}

/** A rendition that is ready and in the store, with the media object that it belongs to. */
export type ExistingRendition = StoredRendition & { mediaId: string };

/** Moves the renditions of one media object into the object store. */
export interface RenditionStorage {
  /**
   * Finds renditions that are ready and in the store, of this media object or another of the same bytes. They need not be made again.
   * @returns by object key
   */
  findExisting(planned: readonly NewRendition[]): Promise<Map<string, ExistingRendition>>;
  /** Records the files of an existing rendition for this media object, too. False: the lease is lost. */
  adopt(lease: Lease, existing: ExistingRendition): Promise<boolean>;
  /**
   * Moves a rendition into the store, file by file. None of it is delivered before its row is published.
   * @returns null if the lease is lost
   */
  store(lease: Lease, row: NewRendition, made: ReadyRendition, signal: AbortSignal): Promise<StoredRendition | null>;
  /** @throws ProcessingError if one of their objects is missing or has another size */
  requireStored(renditions: Iterable<StoredRendition>): Promise<void>;
  /** Keys under which objects were put, or were about to be. */
  readonly writtenKeys: ReadonlySet<string>;
}

/** {@link RenditionStorage} of one media object. */
export function createRenditionStorage(parts: {
  media: Pick<MediaRepository, 'findReadyObject' | 'reserveFiles'>;
  pieceDigests: Pick<PieceDigestRepository, 'put'>;
  store: ObjectStore;
  mediaObject: MediaRecord;
}): RenditionStorage {
  const { media, pieceDigests, store, mediaObject } = parts;
  const writtenKeys = new Set<string>();

  const isStored = async ({ row, files }: StoredRendition): Promise<boolean> => {
    const objects = files.length > 0 ? files : [{ objectKey: row.objectKey, bytes: row.bytes }];
    for (const { objectKey, bytes } of objects) {
      if (objectKey === null || (await store.stat(objectKey))?.bytes !== bytes) return false;
    }
    return true;
  };

  /**
   * Puts a file under its key. An interrupted attempt may have left an object of this size with other bytes there: encoders give other
   * bytes on another number of cores.
   */
  const putFile = async (key: string, file: { path: string; sha256: string; bytes: number }): Promise<void> => {
    writtenKeys.add(key);
    const leftover = await store.read(key);
    if (leftover !== null && (await hashStream(leftover.stream)) !== file.sha256) await store.delete(key);
    await store.put(key, file);
  };

  /** Called before the row is written: every reader of the row can verify its object piece by piece. */
  const savePieces = async (sha256: string, pieces: Buffer | null): Promise<void> => {
    if (pieces !== null) await pieceDigests.put(sha256, pieces);
  };

  const putFiles = async (lease: Lease, row: NewRendition, made: ReadyRendition, signal: AbortSignal) => {
    const { name, revision } = row;
    const hashed: (NewRenditionFile & { path: string })[] = [];
    for (const file of made.files ?? []) {
      if (!isRenditionFile(file.name)) throw new RangeError(`"${file.name}" cannot be a file of a rendition.`);
      const objectKey = renditionFileKey({ sourceSha256: mediaObject.sha256, name, revision, file: file.name });
      const { sha256, bytes, pieces } = await hashFile(file.path, signal);
      await savePieces(sha256, pieces);
      hashed.push({ file: file.name, contentType: file.contentType, objectKey, sha256, bytes, path: file.path });
    }
    const [first] = hashed;
    if (first === undefined || first.objectKey !== row.objectKey) {
      throw new RangeError(`The first file of ${name} is not the one that its path names.`);
    }
    const files = hashed.map(({ path: _, ...file }) => file);
    if (!(await media.reserveFiles(lease, row, files))) return null;
    // The first file goes last: if it is in the store, the others are, too.
    for (let from = hashed.length; from > 0; from -= PUTS_AT_ONCE) {
      signal.throwIfAborted();
      const batch = hashed.slice(Math.max(0, from - PUTS_AT_ONCE), from);
      const outcomes = await Promise.allSettled(batch.map((file) => putFile(file.objectKey, file)));
      // All puts have ended before the caller removes the files.
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
    }
    const { sha256 } = first;
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    return { row: { ...readyRow(row, made), sha256, bytes, files: files.length }, files };
  };

  return {
    async findExisting(planned) {
      const found = new Map<string, ExistingRendition>();
      for (const { objectKey } of planned) {
        const ready = objectKey === null ? null : await media.findReadyObject(objectKey);
        if (objectKey === null || ready === null) continue;
        const { mediaId, updatedAtMs: _, ...row } = ready.rendition;
        const existing = { mediaId, row: { ...row, current: true }, files: ready.files.map(fileOf) };
        if (await isStored(existing)) found.set(objectKey, existing);
      }
      return found;
    },

    async adopt(lease, { mediaId, row, files }) {
      return mediaId === mediaObject.id || files.length === 0 || media.reserveFiles(lease, row, files);
    },

    async store(lease, row, made, signal) {
      if (row.objectKey === null) throw new RangeError(`${row.name} was not to be made.`);
      if (made.files !== null) return putFiles(lease, row, made, signal);
      const { pieces, ...file } = await hashFile(made.path, signal);
      await savePieces(file.sha256, pieces);
      await putFile(row.objectKey, { path: made.path, ...file });
      return { row: { ...readyRow(row, made), ...file, files: 1 }, files: [] };
    },

    async requireStored(renditions) {
      for (const rendition of renditions) {
        if (await isStored(rendition)) continue;
        throw new ProcessingError(
          'object_missing',
          'A rendition vanished from the object store before it was published.',
          { retryable: true },
        );
      }
    },

    writtenKeys,
  };
}

/** The row of a rendition before anything of it is made. */
export function plannedRow(mediaObject: MediaRecord, planned: PlannedRendition): NewRendition {
  const { name, extension, contentType, revision } = planned;
  const made = planned.state === 'make';
  const path = renditionPath({ id: mediaObject.id, name, extension, revision });
  const source = { sourceSha256: mediaObject.sha256, name, revision };
  const key =
    path.kind === 'file' ? renditionFileKey({ ...source, file: path.file }) : renditionKey({ ...source, extension });
  return {
    name,
    extension,
    contentType,
    revision,
    current: true,
    state: made ? 'pending' : 'skipped',
    reason: made ? null : planned.reason,
    objectKey: made ? key : null,
    sha256: null,
    bytes: null,
    files: null,
    width: null,
    height: null,
  };
}

function readyRow(row: NewRendition, { width, height }: ReadyRendition): NewRendition {
  return { ...row, state: 'ready', reason: null, width, height };
}

function fileOf({ file, contentType, objectKey, sha256, bytes }: RenditionFileRecord): NewRenditionFile {
  return { file, contentType, objectKey, sha256, bytes };
}
