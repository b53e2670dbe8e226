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
import {
  createRenditionStorage,
  type ExistingRendition,
  plannedRow,
  type RenditionStorage,
  type StoredRendition,
} from './rendition-storage.ts';

export interface ProcessingParts {
  media: MediaRepository;
  pieceDigests: PieceDigestRepository;
  store: ObjectStore;
  engine: Pick<Engine, 'identify' | 'render'>;
  presets: readonly Preset[];
  scratchDir: string;
}

/** The parts that a worker gives to one run. */
export interface ProcessingRun {
  signal: AbortSignal;
  notes: AttemptNotes;
  /** By object key: media of the same bytes share their objects and must not write them at the same time. */
  lock: KeyedLock;
  /** Called with the progress of the render, 0 to 1, as often as the engine reports it. */
  onProgress(fraction: number): void;
}

type RenderedRendition = RenderResult['renditions'][number];

/** A rendition of the plan with its row. */
interface PlannedRow {
  planned: PlannedRendition;
  row: NewRendition;
}

/** One attempt at one media object, from the opened original to the clean-up. */
interface Attempt extends ProcessingParts {
  lease: Lease;
  run: ProcessingRun;
  mediaObject: MediaRecord;
  storage: RenditionStorage;
  originalPath: string;
  outDir: string;
  /** Video and audio take long: each of their renditions is published as soon as it is stored. */
  publishesEach: boolean;
  /** Aborted when the lease is lost. Nothing is published after that. */
  leaseLost: AbortController;
  /** Aborted when the run is aborted or the lease is lost. */
  signal: AbortSignal;
  /** Renditions that are moved into the store while others are still rendered; by {@link nameOf}. Null: the rendition failed. */
  storing: Map<string, Promise<StoredRendition | null>>;
}

/** The work of one attempt. */
interface Plan {
  source: IdentifiedFile;
  rows: PlannedRow[];
  /** Renditions that need not be made again, by object key. */
  existing: Map<string, ExistingRendition>;
  thumbhash: string | null;
  /** The rows whose renditions are to be rendered. */
  due: PlannedRow[];
}

/** Less than this free on the scratch volume counts as full. */
const SCRATCH_ROOM_BYTES = 16 * 1024 * 1024;

const NOTHING_RENDERED: RenderResult = { renditions: [], thumbhash: null, warnings: [], runs: [], timings: {} };

/**
 * Makes the renditions of the media object that a lease is for, in five phases: open the original, plan, reserve, render, publish.
 * Renditions of an image are published in one transaction; nothing is visible before it. Those of video and audio are published one by
 * one, each when it is whole, and the media object becomes `ready` after the last. A second run writes the same keys and makes only
 * what is missing.
 *
 * A media object becomes `ready` if no rendition was due or at least one was made; for a video, one that shows it. The others
 * are `failed` or `skipped` with their reasons. If all of these failed, the media object fails with the first one's reason.
 * @returns false if the lease was lost; nothing more was published then
 * @throws RenderError, ProcessingError, AppError `insufficient_storage`; the signal's error when aborted
 */
export async function processMedia(parts: ProcessingParts, lease: Lease, run: ProcessingRun): Promise<boolean> {
  const mediaObject = await parts.media.find(lease.mediaId);
  if (mediaObject === null) return false;
  const original = await openOriginal(parts.store, mediaObject);
  const attempt = beginAttempt(parts, lease, run, { mediaObject, originalPath: original.path });
  try {
    const plan = await planAttempt(attempt);
    if (!(await reserve(attempt, plan))) return false;
    const rendered = await render(attempt, plan);
    if (attempt.leaseLost.signal.aborted) return false;
    refuseUseless(attempt, plan, rendered);
    return await publish(attempt, plan, rendered);
  } catch (error) {
    if (attempt.leaseLost.signal.aborted) return false;
    run.notes.addFailure(error);
    throw error;
  } finally {
    await Promise.allSettled(attempt.storing.values());
    await original.release();
    await rm(attempt.outDir, { recursive: true, force: true });
    await deleteIfRemoved(attempt);
  }
}

async function openOriginal(store: ObjectStore, { sha256 }: MediaRecord) {
  const original = await store.localFile(originalKey(sha256));
  if (original !== null) return original;
  const message =
    'The original is missing from the object store. Put it back from a backup, or upload the file again, and retry.';
  throw new ProcessingError('object_missing', message, { retryable: false });
}

function beginAttempt(
  parts: ProcessingParts,
  lease: Lease,
  run: ProcessingRun,
  file: Pick<Attempt, 'mediaObject' | 'originalPath'>,
): Attempt {
  const leaseLost = new AbortController();
  return {
    ...parts,
    ...file,
    lease,
    run,
    storage: createRenditionStorage({ ...parts, mediaObject: file.mediaObject }),
    outDir: join(parts.scratchDir, lease.token),
    publishesEach: file.mediaObject.kind !== 'image',
    leaseLost,
    signal: AbortSignal.any([run.signal, leaseLost.signal]),
    storing: new Map(),
  };
}

/** Decides what to render: what the presets ask for, without what the store has already. */
async function planAttempt(attempt: Attempt): Promise<Plan> {
  const { mediaObject, storage, publishesEach } = attempt;
  const source = await restoreIdentified(attempt);
  const applying = planRenditions(source, attempt.presets).filter(({ state }) => state !== 'not_applicable');
  const rows = applying.map((planned) => ({ planned, row: plannedRow(mediaObject, planned) }));
  const existing = await storage.findExisting(rows.map(({ row }) => row));
  const thumbhash = mediaObject.thumbhash ?? (await thumbhashOfTwin(attempt, existing));
  const due = rows.filter(({ planned, row }) => {
    if (planned.state !== 'make') return false;
    // An interrupted attempt may have published the poster without its thumbhash.
    const lacksThumbhash = publishesEach && thumbhash === null && planned.preset.type === 'picture';
    return existingFor(existing, row) === undefined || lacksThumbhash;
  });
  return { source, rows, existing, thumbhash, due };
}

/** Returns what ingest found out. The file is identified again if another version of the engine wrote that. */
async function restoreIdentified({ mediaObject, engine, originalPath, run }: Attempt): Promise<IdentifiedFile> {
  try {
    return parseIdentified(mediaObject.identified);
  } catch {
    return engine.identify(originalPath, { signal: run.signal });
  }
}

async function thumbhashOfTwin({ media }: Attempt, existing: Plan['existing']): Promise<string | null> {
  for (const id of new Set([...existing.values()].map(({ mediaId }) => mediaId))) {
    const twin = await media.find(id);
    if (twin?.thumbhash) return twin.thumbhash;
  }
  return null;
}

/**
 * Writes the rows, so that they refer to the objects and no removal takes them for orphans. Then adopts what exists.
 * @returns false if the lease is lost
 */
async function reserve({ media, storage, lease, run, publishesEach }: Attempt, plan: Plan): Promise<boolean> {
  const rows = plan.rows.map(({ row }) => row);
  if (!(await media.start(lease, rows))) return false;
  const reused = rows.filter((row) => existingFor(plan.existing, row) !== undefined);
  if (reused.length > 0) run.notes.add(`Kept, as it was there: ${reused.map(nameOf).join(', ')}.`);
  for (const row of reused) {
    const found = existingFor(plan.existing, row);
    if (found === undefined) continue;
    if (!(await storage.adopt(lease, found))) return false;
    if (publishesEach && !(await media.publishRendition(lease, found.row))) return false;
  }
  return true;
}

/** Renders what is due. Returns when all of it is stored, or known to have failed. */
async function render(attempt: Attempt, plan: Plan): Promise<RenderResult> {
  if (plan.due.length === 0) return NOTHING_RENDERED;
  const rendered = await renderVerified(attempt, plan);
  attempt.run.notes.addRender(rendered);
  if (rendered.renditions.some(isOutputFailure)) await requireScratchRoom(attempt.scratchDir);
  await Promise.all(attempt.storing.values());
  return rendered;
}

/** Renders while the original is verified, because both take time. Nothing is stored before the original is known to be sound. */
async function renderVerified(attempt: Attempt, { source, rows, due }: Plan): Promise<RenderResult> {
  const { engine, run, mediaObject, originalPath: path, outDir, signal, storing } = attempt;
  const damaged = new AbortController();
  const verified = verifyOriginal(mediaObject, path, signal);
  verified.catch((error: unknown) => damaged.abort(error));
  const rowByName = new Map(due.map(({ row }) => [nameOf(row), row]));
  const onProgress = ({ rendition, fraction }: RenderProgress) => {
    run.onProgress(fraction);
    const row = rendition === null ? undefined : rowByName.get(nameOf(rendition));
    if (rendition === null || row === undefined) return;
    const stored = verified.then(() => storeRendition(attempt, row, rendition));
    // Its failure is handled when the render is over.
    stored.catch(() => undefined);
    storing.set(nameOf(rendition), stored);
  };
  const plan = due.map(({ planned }) => planned);
  const beside = rows.filter((row) => row.planned.state === 'make' && !due.includes(row)).map(({ planned }) => planned);
  const stop = AbortSignal.any([signal, damaged.signal]);
  const rendered = await engine
    .render({ path, source, plan, beside, outDir }, { signal: stop, onProgress })
    // A damaged original explains whatever the decoder made of it.
    .catch((error: unknown) => verified.then(() => Promise.reject(error)));
  await verified;
  return rendered;
}

/** Compares the original with its recorded hash: a damaged one would give damaged renditions, or a failure that blames the file. */
async function verifyOriginal(mediaObject: MediaRecord, path: string, signal: AbortSignal): Promise<void> {
  const { sha256 } = await hashFile(path, signal);
  if (sha256 === mediaObject.sha256) return;
  const message =
    'The stored original is damaged: its bytes are not those that were uploaded. Upload the file again, or put it back from a backup and retry.';
  throw new ProcessingError('object_corrupt', message, { retryable: false });
}

/** Moves a rendition into the store, and publishes it if it is video or audio. Null: it failed, or the lease is lost. */
async function storeRendition(
  attempt: Attempt,
  row: NewRendition,
  made: RenderedRendition,
): Promise<StoredRendition | null> {
  const { media, storage, lease, run, publishesEach, signal } = attempt;
  const { objectKey } = row;
  if (made.state === 'failed' || objectKey === null) return null;
  const loseLease = () => {
    attempt.leaseLost.abort(new Error('the lease is lost'));
    return null;
  };
  return run.lock.run(objectKey, async () => {
    // A media object of the same bytes may have been faster. Delivered bytes under a key must not change.
    const twin = (await storage.findExisting([row])).get(objectKey);
    if (twin !== undefined && !(await storage.adopt(lease, twin))) return loseLease();
    const stored = twin ?? (await storage.store(lease, row, made, signal));
    if (stored === null) return loseLease();
    if (publishesEach && !(await media.publishRendition(lease, stored.row))) return loseLease();
    return stored;
  });
}

/** Throws if nothing was made that matters, or if another attempt could make what is missing. */
function refuseUseless({ mediaObject, lease }: Attempt, plan: Plan, rendered: RenderResult): void {
  const failed = rendered.renditions.filter((rendition) => rendition.state === 'failed');
  const [first] = failed;
  if (first === undefined) return;
  const byChance = failed.find(({ code }) => isRetryable(code));
  const isLastAttempt = byChance === undefined || lease.attempt >= MAX_ATTEMPTS;
  if (isLastAttempt && hasEssentials(mediaObject.kind, plan, rendered)) return;
  const worst = byChance ?? first;
  throw new ProcessingError(worst.code, worst.reason, { retryable: byChance !== undefined });
}

/** Whether a rendition is there that shows the media object; any rendition, if none of the plan shows it. */
function hasEssentials(kind: MediaRecord['kind'], { rows, existing }: Plan, { renditions }: RenderResult): boolean {
  const made = new Set(renditions.flatMap((rendition) => (rendition.state === 'ready' ? nameOf(rendition) : [])));
  const planned = rows.filter((row) => row.planned.state === 'make');
  const showing = planned.filter((row) => isShowing(kind, row.planned));
  const essential = showing.length > 0 ? showing : planned;
  return essential.some(({ row }) => made.has(nameOf(row)) || existingFor(existing, row) !== undefined);
}

/**
 * Whether a rendition shows something of its media object. A video that has neither `hls` nor `mp4` nor any picture cannot be
 * watched, even if its audio or the text of an index was made.
 */
function isShowing(kind: MediaRecord['kind'], { preset }: PlannedRendition): boolean {
  if (kind !== 'video') return true;
  if (preset.type === 'storyboard') return preset.container !== 'vtt';
  return preset.type !== 'audio' && preset.type !== 'waveform';
}

/** Publishes the media object, with the outcome of every rendition. @returns false if the lease is lost */
async function publish(attempt: Attempt, plan: Plan, rendered: RenderResult): Promise<boolean> {
  const reasons = new Map(
    rendered.renditions.flatMap((made) => (made.state === 'failed' ? [[nameOf(made), made.reason] as const] : [])),
  );
  const stored: StoredRendition[] = [];
  const renditions: NewRendition[] = [];
  for (const { row } of plan.rows) {
    const ready = existingFor(plan.existing, row) ?? (await attempt.storing.get(nameOf(row))) ?? null;
    const reason = reasons.get(nameOf(row));
    if (ready !== null) stored.push(ready);
    renditions.push(ready?.row ?? (reason === undefined ? row : { ...row, state: 'failed', reason }));
  }
  await attempt.storage.requireStored(stored);
  const result = {
    renditions,
    thumbhash: rendered.thumbhash ?? plan.thumbhash,
    warnings: [...new Set([...plan.source.warnings, ...rendered.warnings])],
  };
  return attempt.media.publish(attempt.lease, result, attempt.run.notes.report());
}

/**
 * Deletes what was stored for a media object that was removed during the attempt: its removal could not know of these objects. They stay
 * if another media object of the same bytes may need them, and go with the last of those.
 */
async function deleteIfRemoved({ media, store, storage, mediaObject: { id, sha256 } }: Attempt): Promise<void> {
  if (storage.writtenKeys.size === 0 || (await media.find(id)) !== null) return;
  for (const key of storage.writtenKeys) {
    if (!(await media.isReferenced(originalKey(sha256)))) await store.delete(key);
  }
}

/** Name and extension together are unique within a media object's renditions of today's presets. */
const nameOf = ({ name, extension }: { name: string; extension: string }) => `${name}.${extension}`;

function existingFor(existing: Plan['existing'], { objectKey }: NewRendition): ExistingRendition | undefined {
  return objectKey === null ? undefined : existing.get(objectKey);
}

function isOutputFailure(rendition: RenderedRendition): boolean {
  return rendition.state === 'failed' && rendition.code === 'output_failed';
}

/** Throws if the disk is full: a rendition that could not be written for that reason is no fault of its media object. */
async function requireScratchRoom(scratchDir: string): Promise<void> {
  const { bavail, bsize } = await statfs(scratchDir);
  if (bavail * bsize >= SCRATCH_ROOM_BYTES) return;
  throw new AppError(
    'insufficient_storage',
    'The storage has no room for renditions. They are made when there is room.',
  );
}
