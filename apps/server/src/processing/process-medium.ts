import { rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type Engine,
  type IdentifiedFile,
  type PlannedRendition,
  type Preset,
  parseIdentified,
  planRenditions,
  type ReadyRendition,
  type RenderProgress,
  type RenderResult,
} from '@mds/transcode';
import type { MediaRecord, MediaRepository, ProcessingResult, RenditionRecord } from '../db/media-repository.ts';
import { AppError } from '../http/app-error.ts';
import type { Lease } from '../jobs/job-queue.ts';
import { MAX_ATTEMPTS } from '../jobs/job-queue.ts';
import { type ObjectStore, originalKey, renditionKey } from '../storage/object-store.ts';
import { hashFile } from './hash-file.ts';
import { isRetryable, ProcessingError } from './processing-error.ts';

export interface ProcessingParts {
  media: MediaRepository;
  store: ObjectStore;
  engine: Pick<Engine, 'identify' | 'render'>;
  presets: readonly Preset[];
  scratchDir: string;
}

type RenditionRow = ProcessingResult['renditions'][number];
type Made = RenderResult['renditions'][number];

/** Less than this free on the scratch volume counts as full. */
const SCRATCH_ROOM_BYTES = 16 * 1024 * 1024;

const NOTHING_RENDERED: RenderResult = { renditions: [], thumbhash: null, warnings: [], timings: {} };

/**
 * Makes the renditions of the medium that a lease is for, and publishes them in one transaction: nothing of them is visible
 * before. A second run over the same medium writes the same keys and makes only what is missing.
 *
 * A medium becomes `ready` if at least one rendition was made, or none was due; the others are `failed` or `skipped` with
 * their reasons. If all that were due failed, the medium fails with the first one's reason.
 * @returns false where the lease was lost: then nothing was published
 * @throws RenderError, ProcessingError, AppError `insufficient_storage`; the signal's error when aborted
 */
export async function processMedium(parts: ProcessingParts, lease: Lease, signal: AbortSignal): Promise<boolean> {
  const { media, store, engine } = parts;
  const medium = await media.find(lease.mediaId);
  if (medium === null) return false;

  const original = await store.localFile(originalKey(medium.sha256));
  if (original === null) {
    const message =
      'The original is missing from the object store. Put it back from a backup, or upload the file again, and retry.';
    throw new ProcessingError('object_missing', message, { retryable: false });
  }
  const outDir = join(parts.scratchDir, lease.token);
  /** What was made, on its way into the store while the rest is still being made; by {@link nameOf}. */
  const storing = new Map<string, Promise<RenditionRow>>();
  try {
    const source = await restoreIdentified(medium, original.path);
    const rows = planRenditions(source, parts.presets).map((planned) => ({
      planned,
      row: plannedRow(medium, planned),
    }));
    const standing = await standingRenditions(medium.id);
    // From here on the rows refer to the objects, so that no removal takes them for orphans.
    if (
      !(await media.start(
        lease,
        rows.map(({ row }) => row),
      ))
    )
      return false;

    const due = rows.filter(({ planned, row }) => planned.state === 'make' && !standing.has(row.objectKey));
    let rendered = NOTHING_RENDERED;
    if (due.length > 0) {
      rendered = await renderDue(medium, original.path, source, due);
      if (rendered.renditions.some(isOutputFailure)) await requireScratchRoom(parts.scratchDir);
      refuseFruitless(rendered, standing.size, lease);
    }
    const stored = await Promise.all(
      rows.map(({ row }) => standing.get(row.objectKey) ?? storing.get(nameOf(row)) ?? row),
    );
    await requireObjects(stored);
    const published = await media.publish(lease, {
      renditions: stored,
      thumbhash: rendered.thumbhash ?? medium.thumbhash,
      warnings: [...new Set([...source.warnings, ...rendered.warnings])],
    });
    if (!published) await dropIfRemoved(medium.id, stored);
    return published;
  } finally {
    await Promise.allSettled(storing.values());
    await original.release();
    await rm(outDir, { recursive: true, force: true });
  }

  /** What ingest found out; found out again where another version of the engine had written it. */
  async function restoreIdentified(record: MediaRecord, path: string): Promise<IdentifiedFile> {
    try {
      return parseIdentified(record.identified);
    } catch {
      return engine.identify(path, { signal });
    }
  }

  /** Renditions that are ready and really there, by object key: they need not be made again. */
  async function standingRenditions(mediaId: string): Promise<Map<string | null, RenditionRow>> {
    const found = new Map<string | null, RenditionRow>();
    for (const { mediaId: _, updatedAtMs: __, ...row } of await media.renditions(mediaId)) {
      if (row.state !== 'ready' || row.objectKey === null) continue;
      const object = await store.stat(row.objectKey);
      if (object?.bytes === row.bytes) found.set(row.objectKey, { ...row, current: true });
    }
    return found;
  }

  /** Renders while the original is verified, for both take time; nothing is stored before it is known to be sound. */
  async function renderDue(
    record: MediaRecord,
    path: string,
    source: IdentifiedFile,
    due: { planned: PlannedRendition; row: RenditionRow }[],
  ): Promise<RenderResult> {
    const damaged = new AbortController();
    const verified = verifyOriginal(record, path, signal);
    verified.catch((error: unknown) => damaged.abort(error));
    const rowOf = new Map(due.map(({ row }) => [nameOf(row), row]));
    const storeSound = async (row: RenditionRow, made: Made) => {
      await verified;
      return storeRendition(row, made);
    };
    const onProgress = ({ rendition }: RenderProgress) => {
      const row = rowOf.get(nameOf(rendition));
      if (row === undefined) return;
      const stored = storeSound(row, rendition);
      // Looked at when the render is over.
      stored.catch(() => undefined);
      storing.set(nameOf(rendition), stored);
    };
    const plan = due.map(({ planned }) => planned);
    const stop = AbortSignal.any([signal, damaged.signal]);
    const rendered = await engine
      .render({ path, source, plan, outDir }, { signal: stop, onProgress })
      // A damaged original explains whatever the decoder made of it.
      .catch((error: unknown) => verified.then(() => Promise.reject(error)));
    await verified;
    return rendered;
  }

  async function storeRendition(row: RenditionRow, made: Made): Promise<RenditionRow> {
    if (row.objectKey === null) return row;
    if (made.state === 'failed') return { ...row, state: 'failed', reason: made.reason };
    const file = await hashFile(made.path, signal);
    await store.put(row.objectKey, { path: made.path, ...file });
    return readyRow(row, made, file);
  }

  /** A removal that was under way when we began may have taken an object that we found in place. */
  async function requireObjects(ready: RenditionRow[]): Promise<void> {
    for (const { state, objectKey, bytes } of ready) {
      if (state !== 'ready' || objectKey === null) continue;
      if ((await store.stat(objectKey))?.bytes === bytes) continue;
      throw new ProcessingError(
        'object_missing',
        'A rendition vanished from the object store before it was published.',
        {
          retryable: true,
        },
      );
    }
  }

  /** The medium was removed under us, and its removal could not know of the objects that came after it. */
  async function dropIfRemoved(mediaId: string, ready: RenditionRow[]): Promise<void> {
    if ((await media.find(mediaId)) !== null) return;
    for (const { objectKey } of ready) {
      if (objectKey !== null && !(await media.isReferenced(objectKey))) await store.delete(objectKey);
    }
  }
}

/** Name and extension together are unique within a medium's renditions of today's presets. */
const nameOf = ({ name, extension }: { name: string; extension: string }) => `${name}.${extension}`;

function isOutputFailure(rendition: RenderResult['renditions'][number]): boolean {
  return rendition.state === 'failed' && rendition.code === 'output_failed';
}

/** A rendition that could not be written down may have found the disk full, which is no fault of its medium. */
async function requireScratchRoom(scratchDir: string): Promise<void> {
  const { bavail, bsize } = await statfs(scratchDir);
  if (bavail * bsize >= SCRATCH_ROOM_BYTES) return;
  throw new AppError(
    'insufficient_storage',
    'The storage has no room for renditions. They are made when there is room.',
  );
}

/** A damaged original would give damaged renditions, or a failure that blames the file for what the disk did. */
async function verifyOriginal(medium: MediaRecord, path: string, signal: AbortSignal): Promise<void> {
  const { sha256 } = await hashFile(path, signal);
  if (sha256 === medium.sha256) return;
  const message =
    'The stored original is damaged: its bytes are not those that were uploaded. Upload the file again, or put it back from a backup and retry.';
  throw new ProcessingError('object_corrupt', message, { retryable: false });
}

/** Throws where nothing came of it, or where another attempt could make what is missing. */
function refuseFruitless(result: RenderResult, standing: number, lease: Lease): void {
  const failed = result.renditions.filter((rendition) => rendition.state === 'failed');
  const first = failed[0];
  if (first === undefined) return;
  const byChance = failed.find(({ code }) => isRetryable(code));
  const nothingMade = failed.length === result.renditions.length && standing === 0;
  const worst = byChance ?? first;
  if (!nothingMade && (byChance === undefined || lease.attempt >= MAX_ATTEMPTS)) return;
  throw new ProcessingError(worst.code, worst.reason, { retryable: byChance !== undefined });
}

function plannedRow(medium: MediaRecord, planned: PlannedRendition): RenditionRow {
  const { name, extension, contentType, revision } = planned;
  const made = planned.state === 'make';
  return {
    name,
    extension,
    contentType,
    revision,
    current: true,
    state: made ? 'pending' : 'skipped',
    reason: made ? null : planned.reason,
    objectKey: made ? renditionKey({ sourceSha256: medium.sha256, name, revision, extension }) : null,
    sha256: null,
    bytes: null,
    width: null,
    height: null,
  };
}

function readyRow(
  row: RenditionRow,
  made: ReadyRendition,
  file: Pick<RenditionRecord, 'sha256' | 'bytes'>,
): RenditionRow {
  return { ...row, ...file, state: 'ready', reason: null, width: made.width, height: made.height };
}
