import type { Client, IngestOptions, MediaDetail } from '@mds/client';
import type { Journal } from '../journal/journal.ts';
import type { JournalEntry } from '../journal/journal-file.ts';
import { failedNames } from '../media/media-state.ts';
import { enterState, startTransfer, type Transfer } from '../output/progress.ts';
import { failureOf } from './failure.ts';
import type { IngestFile, RemoteFile, UnreadableFile } from './find-files.ts';
import { followTransfer } from './follow-transfer.ts';
import type { SendFile } from './send-file.ts';

/** What became of one file. */
export interface IngestOutcome {
  file: string;
  /** `remembered`: the journal has it from an earlier run, and nothing was asked. */
  outcome: 'created' | 'existing' | 'remembered' | 'failed';
  media_id: string | null;
  /** The media object as it was last seen, on its way still where waiting for it was cut short; null where it was not seen. */
  media: MediaDetail | null;
  error: { code: string | null; message: string } | null;
  /** Which renditions a media object that is ready has not, for they failed: `hls.m3u8`. */
  failed_renditions: string[];
}

/** How to go about it. */
export interface IngestPlan {
  client: Client;
  send: SendFile;
  /** How many at once. */
  parallel: number;
  duplicate: NonNullable<IngestOptions['duplicate']>;
  /** Whether a file is done when its media object is ready, and not when it is stored. */
  wait: boolean;
  /** What earlier runs did; null where nothing is remembered. */
  journal: Journal | null;
  signal: AbortSignal;
  /** Called when a file is under way; the transfer changes as it gets on. */
  onStart(transfer: Transfer): void;
  onEnd(transfer: Transfer, outcome: IngestOutcome | null): void;
  /** Called with words on a file that an earlier run had sent some of. */
  onGoesOn(words: string): void;
  /** Called with words on a file that is not done while the service has something of it: how it goes on. */
  onLeft(words: string): void;
}

/**
 * Ingests files, some at a time, in their order. A file that is refused does not keep the others. What would be the same
 * for all of them does: a token that is not accepted, a service that is not there, an interruption.
 * @param files each is taken when there is a hand free for it
 * @returns what ended it before its end, or null
 */
export async function ingestFiles(
  files: AsyncGenerator<IngestFile | RemoteFile | UnreadableFile>,
  plan: IngestPlan,
): Promise<unknown> {
  const stop = new AbortController();
  const signal = AbortSignal.any([plan.signal, stop.signal]);
  const worker = async () => {
    while (!signal.aborted) {
      // Several may ask at once: a generator answers them one after the other.
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

/** What one file came to, null where it is not known; and what ended the whole by it, or null. */
interface FileEnd {
  outcome: IngestOutcome | null;
  stopped: unknown;
}

async function ingestFile(file: IngestFile | RemoteFile, transfer: Transfer, plan: IngestPlan): Promise<FileEnd> {
  const { client, signal, journal } = plan;
  const source = 'source' in file ? file.source : null;
  const following = followTransfer(transfer, (words) => plan.onGoesOn(`${file.label} ${words}`));
  let accepted: 'created' | 'existing' | null = null;
  let media: MediaDetail | null = null;
  try {
    const known = rememberedOf(source, journal);
    if (known && !plan.wait) {
      transfer.sentBytes = known.bytes;
      return { outcome: rememberedOutcome(file, known), stopped: null };
    }
    media = known && (await mediaObjectOf(known, plan));
    accepted = media && 'existing';
    if (media === null) {
      const ingested = await plan.send(file, {
        duplicate: plan.duplicate,
        // Where the program died before it could note what it sent: the same key gives the same media object.
        idempotencyKey:
          source && plan.duplicate === 'allow' ? journal?.idempotencyKey(source.path, source.version) : undefined,
        signal,
        ...following,
      });
      media = ingested.media;
      accepted = ingested.created ? 'created' : 'existing';
      if (source) remember(source, media.id, journal);
    }
    if (plan.wait) {
      media = await client.control.media.waitUntilReady(media.id, {
        signal,
        // What is there already may be under repair.
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
    // What was accepted is processed whether or not somebody waits for it.
    const outcome = accepted && outcomeOf(file, accepted, media);
    const left = accepted === null ? following.left() : null;
    if (left !== null) plan.onLeft(`${file.label}: ${left}`);
    return { outcome, stopped: error };
  }
}

function rememberedOf(source: IngestFile['source'], journal: Journal | null): JournalEntry | null {
  const entry = source && journal?.find(source.path, source.version);
  return entry?.state === 'accepted' ? entry : null;
}

function remember(
  { path, version }: NonNullable<IngestFile['source']>,
  mediaId: string,
  journal: Journal | null,
): void {
  const { bytes, mtimeMs } = version;
  journal?.record({ path, bytes, mtime_ms: mtimeMs, state: 'accepted', media_id: mediaId, code: null, message: null });
}

/** The media object that the journal names; null where the service has it no more, so that the file is sent again. */
async function mediaObjectOf(
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

/** What became of a file that was sent, or could not be. */
export function outcomeOf(
  { label }: { label: string },
  outcome: IngestOutcome['outcome'],
  media: MediaDetail | null,
  error: IngestOutcome['error'] = null,
): IngestOutcome {
  const failed = media === null ? [] : failedNames(media);
  return { file: label, outcome, media_id: media?.id ?? null, media, error, failed_renditions: failed };
}

/** The reason for one file's failure; null for what would be the same for all. */
async function fileFailure(error: unknown): Promise<IngestOutcome['error']> {
  const failure = await failureOf(error);
  if (failure === null || failure.kind === 'token') return null;
  if (failure.kind === 'service' && failure.code === 'deployment_moved') return null;
  if (failure.kind === 'service' && 'code' in failure.error && UNREACHABLE.has(String(failure.error.code))) return null;
  return { code: failure.code, message: failure.message };
}

const UNREACHABLE: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);
