import type { UploadRecord, UploadRepository } from '../db/upload-repository.ts';
import { AppError } from '../http/app-error.ts';
import type { Logger } from '../logger.ts';
import type { UploadCompletion } from './upload-completion.ts';
import type { UploadFiles } from './upload-files.ts';
import type { UploadLocker } from './upload-locker.ts';
import type { UploadProgress } from './upload-progress.ts';

/** Looks for what is overdue this often, or four times within the expiry where that is short; in milliseconds. */
const LONGEST_PAUSE_MS = 60_000;
const PAGE = 200;

export interface UploadJanitorParts {
  uploads: Pick<UploadRepository, 'open' | 'find' | 'overdue' | 'forget' | 'unlockAll'>;
  files: UploadFiles;
  progress: UploadProgress;
  completion: UploadCompletion;
  locker: Pick<UploadLocker, 'run' | 'isHeld'>;
  expiryMs: number;
  logger: Logger;
}

/** Takes up what a restart interrupted, and clears away what was abandoned. */
export interface UploadJanitor {
  /**
   * Frees locks, removes files without an upload, and takes room for those that are on their way; then, without waiting for it, accepts
   * what is whole. For the one process that owns the data folder.
   */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createUploadJanitor(parts: UploadJanitorParts): UploadJanitor {
  const { uploads, files, progress, completion, locker, expiryMs, logger } = parts;
  let stopping = false;
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> = Promise.resolve();

  const queue = (task: () => Promise<void>, failed: string) => {
    working = working.then(task).catch((error: unknown) => logger.error({ err: error }, failed));
  };

  /** Removes the files of uploads that are over or unknown. @returns the open ones that are whole */
  const takeUp = async (): Promise<UploadRecord[]> => {
    await uploads.unlockAll();
    for await (const id of files.sweep()) {
      if ((await uploads.find(id))?.state !== 'open') await files.remove(id);
    }
    const whole: UploadRecord[] = [];
    for (let after: string | null = null; ; ) {
      const page: UploadRecord[] = await uploads.open({ after, limit: PAGE });
      for (const upload of page) {
        const size = await files.size(upload.id);
        progress.of(upload, size);
        if (size === upload.length) whole.push(upload);
      }
      if (page.length < PAGE) return whole;
      after = page.at(-1)?.id ?? null;
    }
  };

  const acceptWhole = async ({ id }: UploadRecord) => {
    if (stopping) return;
    await locker.run(id, async () => {
      const upload = await uploads.find(id);
      if (upload?.state !== 'open' || (await files.size(id)) !== upload.length) return;
      try {
        await completion.complete(upload);
      } catch (error) {
        // It is recorded, or is tried again when its sender asks.
        if (!(error instanceof AppError)) throw error;
      }
    });
  };

  const clearAway = async () => {
    for (const { id } of await uploads.overdue(Date.now(), PAGE)) {
      if (stopping) return;
      // Bytes are coming.
      if (locker.isHeld(id)) continue;
      await locker.run(id, async () => {
        const upload = await uploads.find(id);
        if (upload?.state !== 'open' || upload.expiresAtMs > Date.now()) return;
        await completion.discard(id, { state: 'expired' });
        logger.info({ uploadId: id }, 'an upload was given up, as nothing came for a long time');
      });
    }
    await uploads.forget(Date.now());
  };

  return {
    async start() {
      const whole = await takeUp();
      for (const upload of whole) queue(() => acceptWhole(upload), 'an upload could not be accepted after the start');
      const pauseMs = Math.min(LONGEST_PAUSE_MS, expiryMs / 4);
      timer = setInterval(() => queue(clearAway, 'abandoned uploads could not be cleared away'), pauseMs).unref();
    },
    async stop() {
      stopping = true;
      clearInterval(timer);
      await working;
    },
  };
}
