import type { Client, IngestOptions, MediaDetail } from '@mds/client';
import { failedNames } from '../media/media-state.ts';
import { enterState, startTransfer, type Transfer } from '../output/progress.ts';
import type { IngestFile } from './collect-files.ts';

/** What became of one file. */
export interface IngestOutcome {
  file: string;
  outcome: 'created' | 'existing' | 'failed';
  /** The medium as it was last seen, on its way still where waiting for it was cut short; null where none came to be. */
  media: MediaDetail | null;
  error: { code: string | null; message: string } | null;
  /** Which renditions a medium that is ready has not, for they failed: `hls.m3u8`. */
  failed_renditions: string[];
}

/** How to go about it. */
export interface IngestPlan {
  client: Client;
  /** How many at once. */
  parallel: number;
  duplicate: NonNullable<IngestOptions['duplicate']>;
  /** Whether a file is done when its medium is ready, and not when it is stored. */
  wait: boolean;
  signal: AbortSignal;
  /** Called when a file is under way; the transfer changes as it gets on. */
  onStart(transfer: Transfer): void;
  onEnd(transfer: Transfer, outcome: IngestOutcome | null): void;
}

/**
 * Ingests files, some at a time, in their order. A file that is refused does not keep the others. What would be the same
 * for all of them does: a token that is not accepted, a service that is not there, an interruption.
 * @returns what ended it before its end, or null
 */
export async function ingestFiles(files: readonly IngestFile[], plan: IngestPlan): Promise<unknown> {
  const queue = files.values();
  const stop = new AbortController();
  const signal = AbortSignal.any([plan.signal, stop.signal]);
  const worker = async () => {
    for (const file of queue) {
      if (signal.aborted) return;
      const transfer = startTransfer(file.label, file.bytes);
      plan.onStart(transfer);
      const { outcome, stopped } = await ingestFile(file, transfer, { ...plan, signal });
      plan.onEnd(transfer, outcome);
      if (stopped === null) continue;
      stop.abort(stopped);
      return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(plan.parallel, files.length) }, worker));
  return signal.aborted ? signal.reason : null;
}

/** What one file came to, null where it is not known; and what ended the whole by it, or null. */
interface FileEnd {
  outcome: IngestOutcome | null;
  stopped: unknown;
}

async function ingestFile(file: IngestFile, transfer: Transfer, plan: IngestPlan): Promise<FileEnd> {
  const { client, signal, duplicate } = plan;
  let accepted: 'created' | 'existing' | null = null;
  let media: MediaDetail | null = null;
  try {
    const ingested = await client.control.media.ingest(file.content, {
      filename: file.filename,
      bytes: file.bytes ?? undefined,
      duplicate,
      signal,
      onProgress: ({ sentBytes }) => {
        transfer.sentBytes = sentBytes;
        // Everything is out; now it is made safe over there.
        if (sentBytes === file.bytes) enterState(transfer, 'storing');
        else transfer.state = null;
      },
    });
    media = ingested.media;
    accepted = ingested.created ? 'created' : 'existing';
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
    return { outcome: outcomeOf(file, accepted, media), stopped: null };
  } catch (error) {
    const failure = await fileError(error, signal);
    if (failure) return { outcome: outcomeOf(file, 'failed', media, failure), stopped: null };
    // What was accepted is processed whether or not somebody waits for it.
    const outcome = accepted && outcomeOf(file, accepted, media);
    return { outcome, stopped: error };
  }
}

function outcomeOf(
  file: IngestFile,
  outcome: IngestOutcome['outcome'],
  media: MediaDetail | null,
  error: IngestOutcome['error'] = null,
): IngestOutcome {
  return { file: file.label, outcome, media, error, failed_renditions: media === null ? [] : failedNames(media) };
}

/** The reason for one file's failure; null for what is no fault of the file. */
async function fileError(error: unknown, signal: AbortSignal): Promise<IngestOutcome['error']> {
  if (signal.aborted) return null;
  const { isApiError, isAuthError, isConnectionError, isMdsError, isMediaFailedError } = await import('@mds/client');
  if (isAuthError(error)) return null;
  if (isConnectionError(error) && UNREACHABLE.has(error.code ?? '')) return null;
  if (isMediaFailedError(error)) {
    return { code: error.failure?.code ?? null, message: error.failure?.message ?? error.message };
  }
  if (isApiError(error)) return { code: error.code, message: error.problem?.detail ?? error.message };
  if (isMdsError(error)) return { code: null, message: error.message };
  return null;
}

const UNREACHABLE: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);
