import type { Client, IngestOptions, MediaDetail } from '@mds/client';
import type { Journal } from '../journal/journal.ts';
import type { JournalEntry } from '../journal/journal-file.ts';
import { failedNames } from '../media/media-state.ts';
import { enterState, startTransfer, type Transfer } from '../output/progress.ts';
import { failureOf } from './failure.ts';
import type { IngestFile, RemoteFile, UnreadableFile } from './find-files.ts';
import { followTransfer } from './follow-transfer.ts';
import type { SendFile } from './send-file.ts';

/** The outcome of one file. */
export interface IngestOutcome {
  file: string;
  /** `remembered`: the journal records it from an earlier run, so no request was sent. */
  outcome: 'created' | 'existing' | 'remembered' | 'failed';
  media_id: string | null;
  /** The media object as last received; still being processed if the wait was interrupted; null if none was received. */
  media: MediaDetail | null;
  error: { code: string | null; message: string } | null;
  /** The failed renditions of a ready media object: `hls.m3u8`. */
  failed_renditions: string[];
}

/** How to ingest files. */
export interface IngestPlan {
  client: Client;
  send: SendFile;
  /** How many files are sent at once. */
  parallel: number;
  duplicate: NonNullable<IngestOptions['duplicate']>;
  /** Whether a file is done only when its media object is ready, not when it is stored. */
  wait: boolean;
  /** The record of earlier runs; null if there is none. */
  journal: Journal | null;
  signal: AbortSignal;
  /** Called when a file starts; its transfer changes as it progresses. */
  onStart(transfer: Transfer): void;
  onEnd(transfer: Transfer, outcome: IngestOutcome | null): void;
  /** Called with a message about a file of which an earlier run had sent a part. */
  onResumed(message: string): void;
  /** Called with a message about an unfinished file of which the service has a part: how to continue. */
  onPartial(message: string): void;
}

/**
 * Ingests files in their order, several at once. A refused file does not stop the others. Errors that every file would meet do:
 * a refused token, an unreachable service, an interruption.
 * @param files the next is read when a worker is free
 * @returns the error that stopped the ingest early, or null
 */
export async function ingestFiles(
  files: AsyncGenerator<IngestFile | RemoteFile | UnreadableFile>,
  plan: IngestPlan,
): Promise<unknown> {
  const stop = new AbortController();
  const signal = AbortSignal.any([plan.signal, stop.signal]);
  const worker = async () => {
    while (!signal.aborted) {
      // Several workers may ask at once: a generator queues their calls.
      const { value: file, done } = await files.next();
      if (done || signal.aborted) return;
      const transfer = startTransfer(file.label, 'bytes' in file ? file.bytes : null);
      plan.onStart(transfer);
      const { outcome, stopped } =
        'failure' in file
          ? { outcome: outcomeOf(file, 'failed', null, file.failure), stopped: null }
          : await ingestFile(file, transfer, { ...plan, signal });
      plan.onEnd(transfer, outcome);
      if (stopped !== null) stop.abort(stopped);
    }
  };
  await Promise.all(Array.from({ length: plan.parallel }, worker));
  return signal.aborted ? signal.reason : null;
}

/** The outcome of one file, null if unknown, and the error that stops all files, or null. */
interface FileEnd {
  outcome: IngestOutcome | null;
  stopped: unknown;
}

async function ingestFile(file: IngestFile | RemoteFile, transfer: Transfer, plan: IngestPlan): Promise<FileEnd> {
  const { client, signal, journal } = plan;
  const source = 'source' in file ? file.source : null;
  const follower = followTransfer(transfer, (message) => plan.onResumed(`${file.label} ${message}`));
  let accepted: 'created' | 'existing' | null = null;
  let media: MediaDetail | null = null;
  try {
    const known = findAccepted(source, journal);
    if (known && !plan.wait) {
      transfer.sentBytes = known.bytes;
      return { outcome: rememberedOutcome(file, known), stopped: null };
    }
    media = known && (await findRecordedMedia(known, plan));
    accepted = media && 'existing';
    if (media === null) {
      const ingested = await plan.send(file, {
        duplicate: plan.duplicate,
        // The program may have died before it recorded a sent file: the same key returns the same media object.
        idempotencyKey:
          source && plan.duplicate === 'allow' ? journal?.idempotencyKey(source.path, source.version) : undefined,
        signal,
        ...follower,
      });
      media = ingested.media;
      accepted = ingested.created ? 'created' : 'existing';
      if (source) recordAccepted(source, media.id, journal);
    }
    if (plan.wait) {
      media = await client.control.media.waitUntilReady(media.id, {
        signal,
        // Renditions of an existing media object may be in repair.
        renditions: true,
        onUpdate(update) {
          media = update;
        },
        onProgress({ status, progress }) {
          enterState(transfer, status, progress);
        },
      });
    }
    return { outcome: outcomeOf(file, accepted ?? 'existing', media), stopped: null };
  } catch (error) {
    const failure = signal.aborted ? null : await fileFailure(error);
    if (failure) return { outcome: outcomeOf(file, 'failed', media, failure), stopped: null };
    // An accepted file is processed whether or not this program waits for it.
    const outcome = accepted && outcomeOf(file, accepted, media);
    const partial = accepted === null ? follower.partialState() : null;
    if (partial !== null) plan.onPartial(`${file.label}: ${partial}`);
    return { outcome, stopped: error };
  }
}

function findAccepted(source: IngestFile['source'], journal: Journal | null): JournalEntry | null {
  const entry = source && journal?.find(source.path, source.version);
  return entry?.state === 'accepted' ? entry : null;
}

function recordAccepted(
  { path, version }: NonNullable<IngestFile['source']>,
  mediaId: string,
  journal: Journal | null,
): void {
  const { bytes, mtimeMs } = version;
  journal?.record({ path, bytes, mtime_ms: mtimeMs, state: 'accepted', media_id: mediaId, code: null, message: null });
}

/** Fetches the media object of a journal entry; null if the service no longer has it and the file must be sent again. */
async function findRecordedMedia(
  { media_id: id }: JournalEntry,
  { client, signal }: IngestPlan,
): Promise<MediaDetail | null> {
  const { isNotFoundError } = await import('@mds/client');
  try {
    return id === null ? null : await client.control.media.get(id, { signal });
  } catch (error) {
    if (isNotFoundError(error)) return null;
    throw error;
  }
}

function rememberedOutcome({ label }: { label: string }, { media_id }: JournalEntry): IngestOutcome {
  return { file: label, outcome: 'remembered', media_id, media: null, error: null, failed_renditions: [] };
}

/** Makes the outcome of a file that was sent or failed. */
export function outcomeOf(
  { label }: { label: string },
  outcome: IngestOutcome['outcome'],
  media: MediaDetail | null,
  error: IngestOutcome['error'] = null,
): IngestOutcome {
  const failed = media === null ? [] : failedNames(media);
  return { file: label, outcome, media_id: media?.id ?? null, media, error, failed_renditions: failed };
}

/** The reason why one file failed; null for an error that every file would meet. */
async function fileFailure(error: unknown): Promise<IngestOutcome['error']> {
  const failure = await failureOf(error);
  if (failure === null || failure.kind === 'token') return null;
  if (failure.kind === 'service' && failure.code === 'deployment_moved') return null;
  if (failure.kind === 'service' && 'code' in failure.error && UNREACHABLE.has(String(failure.error.code))) return null;
  return { code: failure.code, message: failure.message };
}

const UNREACHABLE: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);
