import type { Client, IngestOptions, MediaDetail } from '@mds/client';
import { enterState, startTransfer, type Transfer } from '../output/progress.ts';
import type { IngestFile } from './collect-files.ts';

/** What became of one file. */
export interface IngestOutcome {
  file: string;
  outcome: 'created' | 'existing' | 'failed';
  /** The medium as it was last seen; null where none came to be. */
  media: MediaDetail | null;
  error: { code: string | null; message: string } | null;
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
      try {
        plan.onEnd(transfer, await ingestFile(file, transfer, { ...plan, signal }));
      } catch (error) {
        plan.onEnd(transfer, null);
        stop.abort(error);
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(plan.parallel, files.length) }, worker));
  return signal.aborted ? signal.reason : null;
}

async function ingestFile(file: IngestFile, transfer: Transfer, plan: IngestPlan): Promise<IngestOutcome> {
  const { client, signal, duplicate } = plan;
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
    const outcome = ingested.created ? 'created' : 'existing';
    if (plan.wait) {
      media = await client.control.media.waitUntilReady(media.id, {
        signal,
        onUpdate(update) {
          media = update;
        },
        onProgress({ status, progress }) {
          enterState(transfer, status, progress);
        },
      });
    }
    return { file: file.label, outcome, media, error: null };
  } catch (error) {
    return { file: file.label, outcome: 'failed', media, error: await fileError(error, signal) };
  }
}

/** The reason for one file's failure. Throws on what is no fault of the file. */
async function fileError(error: unknown, signal: AbortSignal): Promise<IngestOutcome['error']> {
  if (signal.aborted) throw error;
  const { isApiError, isAuthError, isConnectionError, isMdsError, isMediaFailedError } = await import('@mds/client');
  if (isAuthError(error)) throw error;
  if (isConnectionError(error) && UNREACHABLE.has(error.code ?? '')) throw error;
  if (isMediaFailedError(error)) {
    return { code: error.failure?.code ?? null, message: error.failure?.message ?? error.message };
  }
  if (isApiError(error)) return { code: error.code, message: error.problem?.detail ?? error.message };
  if (isMdsError(error)) return { code: null, message: error.message };
  throw error;
}

const UNREACHABLE: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);
