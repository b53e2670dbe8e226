import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { ProblemCode } from '@mds/contract';
import { type Engine, type IdentifiedFile, MediaRejectedError, type RejectionCode, RenderError } from '@mds/transcode';
import { monotonicFactory } from 'ulid';
import { AppError } from '../base/app-error.ts';
import type { ConfirmLock, KeyedLock } from '../base/keyed-lock.ts';
import type { Logger } from '../base/logger.ts';
import { originalKey } from '../base/object-key.ts';
import { storageError } from '../base/storage-error.ts';
import type { Acceptance, MediaRecord, MediaRepository, NewMedia } from '../db/media-repository.ts';
import { NoAnswerError } from '../db/no-answer-error.ts';
import { hashStream } from '../storage/hash-stream.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { filenameLabel } from './filename-label.ts';
import type { PieceWriting } from './piece-writing.ts';
import { receive, type StagedFile } from './receive.ts';
import type { StagingSpace } from './staging-space.ts';

export interface IngestParts {
  media: MediaRepository;
  store: ObjectStore;
  engine: Pick<Engine, 'identify'>;
  /** One lock per SHA-256. The removal of media takes the same locks. */
  lock: KeyedLock;
  stagingDir: string;
  /** Limits the space that incoming files use on the volume of `stagingDir`. */
  space: StagingSpace;
  writing: PieceWriting;
  maxUploadBytes: number;
  logger: Logger;
  /** Called for each new media object after its commit: there is something to process. */
  onAccepted(media: MediaRecord): void;
}

/** How to accept a file, wherever it comes from. */
export interface AcceptOptions {
  projectId: string;
  /** As the client sent it; kept as a label only. */
  filename: string | null;
  /** A repeated request with this key returns the media object that the first one made. */
  idempotencyKey: string | null;
  /** If the project has these bytes already: `existing` returns that media object, `allow` creates another one. */
  duplicate: 'existing' | 'allow';
  signal?: AbortSignal | undefined;
}

/** One file that arrives as the body of a request. */
export interface IngestInput extends AcceptOptions {
  body: Readable;
  /** Size in bytes as announced by the sender; null if it was not announced. */
  declaredBytes: number | null;
}

/** One file that has arrived. */
export interface AcceptInput extends AcceptOptions {
  staged: StagedFile;
}

/** Counters since the start of the process, and the number of current uploads. */
export interface IngestStats {
  /** Bodies that are arriving now. */
  receiving: number;
  receivedBytes: number;
  created: number;
  /** Answered with a media object that existed already. */
  existing: number;
  /** Refused or interrupted, by problem code. */
  refused: Partial<Record<ProblemCode, number>>;
}

/** Accepts new media. */
export interface Ingest {
  /**
   * Receives, identifies, stores and accepts a file. On return the media object survives kill -9 and power loss.
   * @throws AppError `payload_too_large`, `incomplete_body`, `empty_file`, the code for a rejected file,
   *   `idempotency_conflict`, `insufficient_storage`; in all these cases nothing is stored
   */
  ingest(input: IngestInput): Promise<Acceptance>;
  /**
   * Identifies, stores and accepts a file that has arrived already. On return the media object survives kill -9 and power loss.
   * The staged file is gone, whatever the outcome.
   * @throws AppError as `ingest` does, except `payload_too_large` and `incomplete_body`
   */
  accept(input: AcceptInput): Promise<Acceptance>;
  readonly stats: IngestStats;
}

/** The problem code for each reason for which the engine rejects a file. */
const REJECTIONS = {
  empty_file: 'empty_file',
  unsupported_format: 'unsupported_format',
  unsupported_codec: 'unsupported_codec',
  corrupt_media: 'corrupt_media',
  too_many_pixels: 'too_many_pixels',
  too_many_frames: 'too_many_frames',
  too_long: 'too_long',
  unsafe_media: 'unsafe_media',
  identify_timeout: 'unidentifiable_media',
  identify_crashed: 'unidentifiable_media',
} satisfies Record<RejectionCode, ProblemCode>;

/** Creates {@link Ingest}, which takes a file from its first byte to the queue. */
export function createIngest(parts: IngestParts): Ingest {
  const { media, store, engine, lock, logger } = parts;
  const nextUlid = monotonicFactory();
  const stats: IngestStats = { receiving: 0, receivedBytes: 0, created: 0, existing: 0, refused: {} };

  async function accept({ staged, ...options }: AcceptInput): Promise<Acceptance> {
    try {
      // Files with the same bytes are handled one at a time. The second finds the result of the first. No removal runs while a file is
      // checked and stored.
      const accepted = await lock.run(
        staged.sha256,
        async (lost, confirm) =>
          (await findKnown(options, staged, confirm)) ?? (await storeAndAccept(options, staged, lost, confirm)),
      );
      // Only a known media object leaves the staged file behind. For a new one, `store.put` moved it into the store.
      if (!accepted.created) await rm(staged.path, { force: true });
      return accepted;
    } catch (error) {
      await rm(staged.path, { force: true });
      throw error;
    }
  }

  async function receiveCounted({ body, declaredBytes, signal }: IngestInput): Promise<StagedFile> {
    const { stagingDir, maxUploadBytes: maxBytes, space, writing } = parts;
    const onBytes = (count: number) => {
      stats.receivedBytes += count;
    };
    stats.receiving++;
    try {
      return await receive(body, { stagingDir, maxBytes, space, writing, declaredBytes, signal, onBytes });
    } finally {
      stats.receiving--;
    }
  }

  /** Finds the media object of an earlier request or of the same bytes. Restores its original if that is lost. */
  async function findKnown(input: AcceptOptions, staged: StagedFile, confirm: ConfirmLock): Promise<Acceptance | null> {
    const { projectId, idempotencyKey } = input;
    const made = idempotencyKey === null ? null : await media.findByIdempotencyKey(projectId, idempotencyKey);
    if (made) refuseOtherBytes(made, staged);
    const known = made ?? (input.duplicate === 'existing' ? await media.findBySha256(projectId, staged.sha256) : null);
    if (known === null) return null;
    return { media: await restoreOriginal(known, staged, confirm), created: false };
  }

  /**
   * Stores the original of a known media object again if it is lost or damaged. Uploading the same file again is therefore always a
   * remedy. The check costs no more than receiving the file.
   */
  async function restoreOriginal(known: MediaRecord, staged: StagedFile, confirm: ConfirmLock): Promise<MediaRecord> {
    const key = originalKey(known.sha256);
    const stored = await store.read(key);
    const isIntact = stored !== null && (await hashStream(stored.stream)) === known.sha256;
    if (!isIntact) {
      await confirm();
      await store.delete(key);
      await store.put(key, staged);
      logger.warn({ mediaId: known.id }, 'original restored from another upload');
    }
    const failedBecauseDamaged = known.failure?.code === 'object_corrupt' || known.failure?.code === 'object_missing';
    if (isIntact && !failedBecauseDamaged) return known;
    if (known.status !== 'failed' || !(await media.retry(known.id))) return known;
    const retried = (await media.find(known.id)) ?? known;
    parts.onAccepted(retried);
    return retried;
  }

  /** Identifies, stores and accepts a file. Only then may the request be answered. */
  async function storeAndAccept(
    input: AcceptOptions,
    staged: StagedFile,
    lost: AbortSignal,
    confirm: ConfirmLock,
  ): Promise<Acceptance> {
    const identified = await identifyStaged({ engine, logger }, staged, input.signal);
    const key = originalKey(staged.sha256);
    try {
      await store.put(key, staged);
      // Another process may have held the lock meanwhile and removed the object, because no media object used it yet.
      await confirm();
      const createdAtMs = Date.now();
      const id = `med_${nextUlid(createdAtMs).toLowerCase()}`;
      const { duplicate, idempotencyKey } = input;
      const accepted = await media.accept(newMedia({ id, createdAtMs, input, staged, identified }), {
        duplicate,
        idempotencyKey,
      });
      if (accepted.created) parts.onAccepted(accepted.media);
      // Another process was faster with the same bytes or the same key.
      else refuseOtherBytes(accepted.media, staged);
      return accepted;
    } catch (error) {
      // Keep the object if the lock was lost, because another process may be accepting it. Keep it also if the database did not answer,
      // because the media object may exist.
      if (!lost.aborted && !(error instanceof NoAnswerError)) await removeUnreferenced(key, confirm);
      throw storageError(error);
    }
  }

  async function removeUnreferenced(key: string, confirm: ConfirmLock): Promise<void> {
    try {
      if (await media.isReferenced(key)) return;
      await confirm();
      await store.delete(key);
    } catch (error) {
      // Logged only: the caller must get the first error.
      logger.warn({ err: error, key }, 'unreferenced original could not be removed');
    }
  }

  async function countOutcome(outcome: Promise<Acceptance>): Promise<Acceptance> {
    try {
      const accepted = await outcome;
      stats[accepted.created ? 'created' : 'existing']++;
      return accepted;
    } catch (error) {
      const code = error instanceof AppError ? error.code : 'internal_error';
      stats.refused[code] = (stats.refused[code] ?? 0) + 1;
      throw error;
    }
  }

  return {
    ingest: (input) => countOutcome(receiveCounted(input).then((staged) => accept({ ...input, staged }))),
    accept: (input) => countOutcome(accept(input)),
    get stats() {
      return { ...stats, refused: { ...stats.refused } };
    },
  };
}

/** Identifies a file in an engine child. @throws AppError for a file that is rejected, or if the service stops meanwhile */
async function identifyStaged(
  { engine, logger }: Pick<IngestParts, 'engine' | 'logger'>,
  staged: StagedFile,
  signal: AbortSignal | undefined,
): Promise<IdentifiedFile> {
  try {
    return await engine.identify(staged.path, { signal });
  } catch (error) {
    if (error instanceof MediaRejectedError) {
      const code = REJECTIONS[error.code];
      // The fault may be the file's or the machine's: the operator should see it.
      if (code === 'unidentifiable_media')
        logger.warn({ err: error, bytes: staged.bytes }, 'file could not be identified');
      throw new AppError(code, error.message, { cause: error });
    }
    if (error instanceof RenderError && error.code === 'aborted') {
      const detail = 'The service stopped before the file was accepted. Send it again in a moment.';
      throw new AppError('unavailable', detail, { cause: error });
    }
    throw error;
  }
}

function newMedia(from: {
  id: string;
  createdAtMs: number;
  input: AcceptOptions;
  staged: StagedFile;
  identified: IdentifiedFile;
}): NewMedia {
  const { id, createdAtMs, input, staged, identified } = from;
  const { image, video, audio } = identified.codecs;
  return {
    id,
    projectId: input.projectId,
    createdAtMs,
    contentType: identified.contentType,
    bytes: staged.bytes,
    width: identified.width,
    height: identified.height,
    filename: filenameLabel(input.filename),
    sha256: staged.sha256,
    kind: identified.kind,
    format: identified.format,
    durationMs: identified.durationMs,
    codecs: [image, video, audio].filter((codec) => codec !== undefined),
    warnings: [...identified.warnings],
    identified,
  };
}

function refuseOtherBytes(made: MediaRecord, staged: StagedFile): void {
  if (made.sha256 === staged.sha256) return;
  throw new AppError(
    'idempotency_conflict',
    `The Idempotency-Key has already been used for another file, which became ${made.id}. Use a new key for a new file.`,
  );
}
