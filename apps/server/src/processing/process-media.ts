import { rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type Engine,
  type IdentifiedFile,
  type PlannedRendition,
  type Preset,
  parseIdentified,
  planRenditions,
  type RenderProgress,
  type RenderResult,
} from '@mds/transcode';
import { AppError } from '../base/app-error.ts';
import type { KeyedLock } from '../base/keyed-lock.ts';
import { originalKey } from '../base/object-key.ts';
import { type Lease, MAX_ATTEMPTS } from '../db/job-queue.ts';
import type { MediaRecord, MediaRepository, NewRendition } from '../db/media-repository.ts';
import type { PieceDigestRepository } from '../db/piece-digest-repository.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import type { AttemptNotes } from './attempt-notes.ts';
import { hashFile } from './hash-file.ts';
import { isRetryable, ProcessingError } from './processing-error.ts';
import { createRenditionStorage, plannedRow, type StoredRendition } from './rendition-storage.ts';

export interface ProcessingParts {
  media: MediaRepository;
  pieceDigests: PieceDigestRepository;
  store: ObjectStore;
  engine: Pick<Engine, 'identify' | 'render'>;
  presets: readonly Preset[];
  scratchDir: string;
}

/** What goes with one run. */
export interface ProcessingRun {
  signal: AbortSignal;
  notes: AttemptNotes;
  /** By object key: media of the same bytes, which share their objects, do not write them at the same time. */
  lock: KeyedLock;
  /** Told how far the render is, 0 to 1, as often as the engine tells. */
  onProgress(fraction: number): void;
}

type Made = RenderResult['renditions'][number];

interface DueRendition {
  planned: PlannedRendition;
  row: NewRendition;
}

/** Less than this free on the scratch volume counts as full. */
const SCRATCH_ROOM_BYTES = 16 * 1024 * 1024;

const NOTHING_RENDERED: RenderResult = { renditions: [], thumbhash: null, warnings: [], runs: [], timings: {} };

/**
 * Makes the renditions of the media object that a lease is for. Those of an image are published in one transaction: nothing of them
 * is visible before. Those of video and audio take long, so each is published, whole, as soon as it is made, and the media object is
 * `ready` when all are. A second run over the same media object writes the same keys and makes only what is missing.
 *
 * A media object becomes `ready` if at least one rendition was made, of a video one that shows it, or none was due; the others are
 * `failed` or `skipped` with their reasons. If all of these failed, the media object fails with the first one's reason.
 * @returns false where the lease was lost: then nothing more was published
 * @throws RenderError, ProcessingError, AppError `insufficient_storage`; the signal's error when aborted
 */
export async function processMedia(parts: ProcessingParts, lease: Lease, run: ProcessingRun): Promise<boolean> {
  const { media, pieceDigests, store, engine } = parts;
  const { notes, lock } = run;
  const mediaObject = await media.find(lease.mediaId);
  if (mediaObject === null) return false;

  const original = await store.localFile(originalKey(mediaObject.sha256));
  if (original === null) {
    const message =
      'The original is missing from the object store. Put it back from a backup, or upload the file again, and retry.';
    throw new ProcessingError('object_missing', message, { retryable: false });
  }
  const shelf = createRenditionStorage({ media, pieceDigests, store, mediaObject });
  const outDir = join(parts.scratchDir, lease.token);
  const oneByOne = mediaObject.kind !== 'image';
  /** Stops the render where its outcome is of no use any more. */
  const useless = new AbortController();
  const signal = AbortSignal.any([run.signal, useless.signal]);
  /** What was made, on its way into the store while the rest is still being made; by {@link nameOf}. Null: it failed. */
  const shelving = new Map<string, Promise<StoredRendition | null>>();
  let leaseLost = false;
  const loseLease = () => {
    leaseLost = true;
    useless.abort(new Error('the lease is lost'));
    return null;
  };

  try {
    const source = await restoreIdentified(mediaObject, original.path);
    const applying = planRenditions(source, parts.presets).filter(({ state }) => state !== 'not_applicable');
    const rows = applying.map((planned) => ({ planned, row: plannedRow(mediaObject, planned) }));
    const standing = await shelf.standing(rows.map(({ row }) => row));
    const standingFor = ({ objectKey }: NewRendition) => (objectKey === null ? undefined : standing.get(objectKey));
    // From here on the rows refer to the objects, so that no removal takes them for orphans.
    if (
      !(await media.start(
        lease,
        rows.map(({ row }) => row),
      ))
    )
      return false;
    const kept = rows.filter(({ row }) => standingFor(row) !== undefined);
    if (kept.length > 0) notes.say(`Kept, as it was there: ${kept.map(({ row }) => nameOf(row)).join(', ')}.`);
    const thumbhash =
      mediaObject.thumbhash ?? (await thumbhashOfTwin([...standing.values()].map(({ mediaId }) => mediaId)));
    for (const { row } of rows) {
      const found = standingFor(row);
      if (found === undefined) continue;
      if (!(await shelf.adopt(lease, found))) return false;
      if (oneByOne && !(await media.publishRendition(lease, found.row))) return false;
    }

    const due = rows.filter(({ planned, row }) => {
      if (planned.state !== 'make') return false;
      // An attempt that was cut off made the poster and took its thumbhash with it.
      return standingFor(row) === undefined || (oneByOne && thumbhash === null && planned.preset.type === 'picture');
    });
    let rendered = NOTHING_RENDERED;
    if (due.length > 0) {
      const beside = rows.filter((row) => row.planned.state === 'make' && !due.includes(row));
      rendered = await renderDue(mediaObject, original.path, source, { due, beside });
      notes.take(rendered);
      if (rendered.renditions.some(isOutputFailure)) await requireScratchRoom(parts.scratchDir);
    }
    await Promise.all(shelving.values());
    if (leaseLost) return false;
    if (due.length > 0) {
      const made = new Set(rendered.renditions.flatMap((each) => (each.state === 'ready' ? nameOf(each) : [])));
      const isMade = ({ row }: DueRendition) => made.has(nameOf(row)) || standingFor(row) !== undefined;
      const making = rows.filter(({ planned }) => planned.state === 'make');
      const showing = making.filter(({ planned }) => shows(mediaObject.kind, planned));
      const essential = showing.length > 0 ? showing : making;
      refuseFruitless(rendered, essential.some(isMade), lease);
    }

    const failures = new Map(
      rendered.renditions.flatMap((made) => (made.state === 'failed' ? [[nameOf(made), made] as const] : [])),
    );
    const shelved: StoredRendition[] = [];
    const results: NewRendition[] = [];
    for (const { row } of rows) {
      const ready = standingFor(row) ?? (await shelving.get(nameOf(row))) ?? null;
      const failure = failures.get(nameOf(row));
      if (ready !== null) shelved.push(ready);
      results.push(ready?.row ?? (failure ? { ...row, state: 'failed', reason: failure.reason } : row));
    }
    await shelf.require(shelved);
    const result = {
      renditions: results,
      thumbhash: rendered.thumbhash ?? thumbhash,
      warnings: [...new Set([...source.warnings, ...rendered.warnings])],
    };
    return await media.publish(lease, result, notes.report());
  } catch (error) {
    if (leaseLost) return false;
    notes.takeFailure(error);
    throw error;
  } finally {
    await Promise.allSettled(shelving.values());
    await original.release();
    await rm(outDir, { recursive: true, force: true });
    await dropIfRemoved(mediaObject);
  }

  /** What ingest found out; found out again where another version of the engine had written it. */
  async function restoreIdentified(record: MediaRecord, path: string): Promise<IdentifiedFile> {
    try {
      return parseIdentified(record.identified);
    } catch {
      return engine.identify(path, { signal: run.signal });
    }
  }

  async function thumbhashOfTwin(mediaIds: readonly string[]): Promise<string | null> {
    for (const id of new Set(mediaIds)) {
      const twin = await media.find(id);
      if (twin?.thumbhash) return twin.thumbhash;
    }
    return null;
  }

  /** Renders while the original is verified, for both take time; nothing is stored before it is known to be sound. */
  async function renderDue(
    record: MediaRecord,
    path: string,
    source: IdentifiedFile,
    { due, beside: standing }: Record<'due' | 'beside', readonly DueRendition[]>,
  ): Promise<RenderResult> {
    const damaged = new AbortController();
    const verified = verifyOriginal(record, path, signal);
    verified.catch((error: unknown) => damaged.abort(error));
    const rowOf = new Map(due.map(({ row }) => [nameOf(row), row]));
    const onProgress = ({ rendition, fraction }: RenderProgress) => {
      run.onProgress(fraction);
      const row = rendition === null ? undefined : rowOf.get(nameOf(rendition));
      if (rendition === null || row === undefined) return;
      const shelved = verified.then(() => shelve(row, rendition));
      // Looked at when the render is over.
      shelved.catch(() => undefined);
      shelving.set(nameOf(rendition), shelved);
    };
    const plan = due.map(({ planned }) => planned);
    const beside = standing.map(({ planned }) => planned);
    const stop = AbortSignal.any([signal, damaged.signal]);
    const rendered = await engine
      .render({ path, source, plan, beside, outDir }, { signal: stop, onProgress })
      // A damaged original explains whatever the decoder made of it.
      .catch((error: unknown) => verified.then(() => Promise.reject(error)));
    await verified;
    return rendered;
  }

  /** Into the store, and for what takes long, into the open. */
  async function shelve(row: NewRendition, made: Made): Promise<StoredRendition | null> {
    const { objectKey } = row;
    if (made.state === 'failed' || objectKey === null) return null;
    return lock.run(objectKey, async () => {
      // Another media object of the same bytes may have been quicker; what is delivered under a key must not change.
      const twin = (await shelf.standing([row])).get(objectKey);
      if (twin !== undefined && !(await shelf.adopt(lease, twin))) return loseLease();
      const shelved = twin ?? (await shelf.put(lease, row, made, signal));
      if (shelved === null) return loseLease();
      if (oneByOne && !(await media.publishRendition(lease, shelved.row))) return loseLease();
      return shelved;
    });
  }

  /**
   * The media object was removed under us, and its removal could not know of the objects that came after it. Those that another media object of the
   * same bytes may be about to need stay, and go with the last of them.
   */
  async function dropIfRemoved({ id, sha256 }: MediaRecord): Promise<void> {
    if (shelf.touched.size === 0 || (await media.find(id)) !== null) return;
    for (const key of shelf.touched) {
      if (!(await media.isReferenced(originalKey(sha256)))) await store.delete(key);
    }
  }
}

/** Name and extension together are unique within a media object's renditions of today's presets. */
const nameOf = ({ name, extension }: { name: string; extension: string }) => `${name}.${extension}`;

function isOutputFailure(rendition: Made): boolean {
  return rendition.state === 'failed' && rendition.code === 'output_failed';
}

/** A rendition that could not be written down may have found the disk full, which is no fault of its media object. */
async function requireScratchRoom(scratchDir: string): Promise<void> {
  const { bavail, bsize } = await statfs(scratchDir);
  if (bavail * bsize >= SCRATCH_ROOM_BYTES) return;
  throw new AppError(
    'insufficient_storage',
    'The storage has no room for renditions. They are made when there is room.',
  );
}

/** A damaged original would give damaged renditions, or a failure that blames the file for what the disk did. */
async function verifyOriginal(mediaObject: MediaRecord, path: string, signal: AbortSignal): Promise<void> {
  const { sha256 } = await hashFile(path, signal);
  if (sha256 === mediaObject.sha256) return;
  const message =
    'The stored original is damaged: its bytes are not those that were uploaded. Upload the file again, or put it back from a backup and retry.';
  throw new ProcessingError('object_corrupt', message, { retryable: false });
}

/**
 * Whether a rendition shows something of its media object. A video of which there is neither `hls` nor `mp4` nor any picture cannot be
 * watched, though its sound may have been made, or the text of an index.
 */
function shows(kind: MediaRecord['kind'], { preset }: PlannedRendition): boolean {
  if (kind !== 'video') return true;
  if (preset.type === 'storyboard') return preset.container !== 'vtt';
  return preset.type !== 'audio' && preset.type !== 'waveform';
}

/** Throws where nothing came of it that matters, or where another attempt could make what is missing. */
function refuseFruitless(result: RenderResult, hasEssentials: boolean, lease: Lease): void {
  const failed = result.renditions.filter((rendition) => rendition.state === 'failed');
  const first = failed[0];
  if (first === undefined) return;
  const byChance = failed.find(({ code }) => isRetryable(code));
  const worst = byChance ?? first;
  if (hasEssentials && (byChance === undefined || lease.attempt >= MAX_ATTEMPTS)) return;
  throw new ProcessingError(worst.code, worst.reason, { retryable: byChance !== undefined });
}
