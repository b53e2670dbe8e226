import { AppError } from '../base/app-error.ts';
import type { FetchRecord } from '../db/fetch-repository.ts';
import type { StagedFile } from '../ingest/receive.ts';
import type { StagingSpace } from '../ingest/staging-space.ts';
import type { HttpSource, Resumption, SourceAnswer } from './http-source.ts';
import { type IdleLimit, limitIdleTime } from './idle-limit.ts';
import type { PartFile } from './part-file.ts';
import { SourceError } from './source-error.ts';

export interface DownloadParts {
  source: HttpSource;
  space: StagingSpace;
  maxBytes: number;
  /** Default: 30 seconds for the next KiB. */
  idleLimit?: IdleLimit;
}

/** Facts about the whole file, known while it arrives. */
export interface Whole {
  totalBytes: number | null;
  validator: string | null;
}

const IDLE_LIMIT: IdleLimit = { idleMs: 30_000, minBytes: 1024 };

/**
 * Completes a part. `onWhole` is awaited before the first byte is appended: an attempt that resumes the part must not take it for one
 * of another file.
 */
export type Download = (
  fetch: FetchRecord,
  part: PartFile,
  options: { signal: AbortSignal; onWhole(whole: Whole): Promise<void> },
) => Promise<StagedFile>;

/**
 * Makes {@link Download}: one attempt, which resumes where the part ends if the source still has that file.
 * @throws SourceError; AppError `payload_too_large`, `empty_file`, `insufficient_storage`. The part keeps what arrived
 */
export function createDownload({ source, space, maxBytes, idleLimit = IDLE_LIMIT }: DownloadParts): Download {
  const refuseTooLarge = (bytes: number) => {
    if (bytes <= maxBytes) return;
    throw new AppError('payload_too_large', `The file is larger than the ${maxBytes} bytes that are accepted here.`);
  };

  const receive = async (answer: SourceAnswer, part: PartFile, onWhole: (whole: Whole) => Promise<void>) => {
    const { from, totalBytes } = answer;
    refuseTooLarge(totalBytes ?? 0);
    if (from !== part.bytes) await part.restart();
    await onWhole(answer);
    const room = await space.reserve(totalBytes ?? part.bytes, part.bytes);
    try {
      for await (const piece of limitIdleTime(answer.body, idleLimit)) {
        const bytes = part.bytes + piece.length;
        refuseTooLarge(bytes);
        if (totalBytes !== null && bytes > totalBytes) {
          throw incomplete(`${totalBytes} bytes were announced, and more came`, false);
        }
        await room.grow(bytes);
        await part.append(piece);
        room.wrote(bytes);
      }
    } finally {
      room.release();
    }
    if (totalBytes !== null && part.bytes < totalBytes) {
      throw incomplete(`${totalBytes} bytes were announced, and the answer ended after ${part.bytes}`, true);
    }
    if (part.bytes === 0) throw new AppError('empty_file', 'The file that the source gave has no bytes.');
  };

  return async (fetch, part, { signal, onWhole }) => {
    // The last attempt was stopped when all of it had arrived.
    if (part.bytes > 0 && part.bytes === fetch.totalBytes) return part.finish();
    await source.read(fetch.sourceUrl, { resume: resumptionOf(fetch, part), signal }, (answer) =>
      receive(answer, part, onWhole),
    );
    return part.finish();
  };
}

function resumptionOf({ validator, totalBytes }: FetchRecord, { bytes }: PartFile): Resumption | null {
  return bytes > 0 && validator !== null ? { bytes, validator, totalBytes } : null;
}

function incomplete(what: string, retryable: boolean): SourceError {
  return new SourceError('source_incomplete', `The source did not give what it announced: ${what}.`, { retryable });
}
