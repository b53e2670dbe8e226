import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { UploadRecord, UploadRepository } from '../db/upload-repository.ts';
import type { WriteGate } from '../migration/write-gate.ts';
import type { UploadCompletion } from './upload-completion.ts';
import type { UploadFiles } from './upload-files.ts';
import type { UploadLocker } from './upload-locker.ts';
import type { UploadProgress } from './upload-progress.ts';

/** Overdue uploads are looked for this often, or four times within a short expiry; in milliseconds. */
const LONGEST_PAUSE_MS = 60_000;
const PAGE = 200;
/** If several processes take uploads: how often uploads that others left are looked for, and after what silence they are taken over. */
const SWEEP_MS = 10 * 60_000;
const ABANDONED_MS = 60_000;

export interface UploadJanitorParts {
  uploads: Pick<UploadRepository, 'open' | 'find' | 'overdue' | 'forget' | 'unlockAll'>;
  files: UploadFiles;
  progress: UploadProgress;
  completion: UploadCompletion;
  locker: Pick<UploadLocker, 'run' | 'isHeld'>;
  /** Whether other processes take uploads with the same database. */
  shared: boolean;
  /** Whether bytes of unknown uploads may be removed. Not while they may belong to another deployment. Default: yes. */
  mayRemove?: () => boolean;
  /** Passed before a media object is accepted. Default: nothing is refused. */
  writes?: Pick<WriteGate, 'enter'>;
  expiryMs: number;
  logger: Logger;
}

/** Resumes uploads that a restart interrupted, and removes abandoned ones. */
export interface UploadJanitor {
  /**
   * Removes bytes without an upload. Then accepts complete uploads, without waiting for that. A process that has the database to itself
   * first releases all locks, and reserves room for unfinished uploads; otherwise other processes may hold theirs.
   */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createUploadJanitor(parts: UploadJanitorParts): UploadJanitor {
  const { uploads, files, progress, completion, locker, shared, expiryMs, logger } = parts;
  const { mayRemove = () => true, writes = { enter: () => () => undefined } } = parts;
  let stopping = false;
  let sweptAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> = Promise.resolve();

  const queue = (task: () => Promise<void>, failed: string) => {
    working = working.then(task).catch((error: unknown) => logger.error({ err: error }, failed));
  };

  /** Removes the bytes of uploads that are over or unknown. @returns the open ones that are whole */
  const sweep = async (): Promise<UploadRecord[]> => {
    if (!mayRemove()) return [];
    sweptAtMs = performance.now();
    const whole: UploadRecord[] = [];
    for await (const { id, bytes } of files.all()) {
      const upload = await uploads.find(id);
      if (upload?.state !== 'open') await files.remove(id);
      else if (bytes === upload.length) whole.push(upload);
    }
    return whole;
  };

  /** A shared store may be unavailable for a while, which must not prevent the start. */
  const sweepLater = (error: unknown): UploadRecord[] => {
    if (!shared || !(error instanceof AppError)) throw error;
    logger.warn({ err: error }, 'leftovers of uploads could not be looked for; tried again later');
    sweptAtMs = Number.NEGATIVE_INFINITY;
    return [];
  };

  /** Reserves room for every unfinished upload, even if none of its bytes has arrived. */
  const takeRoom = async () => {
    for (let after: string | null = null; ; ) {
      const page: UploadRecord[] = await uploads.open({ after, limit: PAGE });
      for (const upload of page) progress.of(upload, await files.size(upload.id));
      if (page.length < PAGE) return;
      after = page.at(-1)?.id ?? null;
    }
  };

  /** Whether the process that received it seems to be gone. The clocks of the machines need not agree to the second. */
  const isAbandoned = ({ expiresAtMs }: UploadRecord) => Date.now() - (expiresAtMs - expiryMs) > ABANDONED_MS;

  const acceptWhole = async ({ id }: UploadRecord) => {
    if (stopping) return;
    await locker.run(id, async () => {
      const upload = await uploads.find(id);
      if (upload?.state !== 'open') return;
      const bytes = await files.size(id);
      if (bytes !== upload.length) return;
      try {
        const leave = writes.enter(() => undefined);
        await completion.complete(upload, bytes).finally(leave);
      } catch (error) {
        // A final failure is recorded; any other is tried again when the sender asks.
        if (!(error instanceof AppError)) throw error;
      }
    });
  };

  /** Drops uploads that ended in another process, and takes over those that others left. */
  const followOthers = async () => {
    for (const id of progress.known()) {
      if (locker.isHeld(id) || (await uploads.find(id))?.state === 'open') continue;
      progress.end(id);
      await files.remove(id);
    }
    if (performance.now() - sweptAtMs < SWEEP_MS) return;
    for (const upload of await sweep()) if (isAbandoned(upload)) await acceptWhole(upload).catch(logAndGoOn(upload));
  };

  /** An upload that fails, or that another request or node has, does not hold up the others. */
  const logAndGoOn =
    ({ id }: Pick<UploadRecord, 'id'>) =>
    (error: unknown) =>
      logger.warn({ err: error, uploadId: id }, 'abandoned upload could not be removed');

  const removeAbandoned = async () => {
    if (shared) await followOthers();
    for (const { id } of await uploads.overdue(Date.now(), PAGE)) {
      if (stopping) return;
      // Bytes are arriving.
      if (locker.isHeld(id)) continue;
      await locker
        .run(id, async () => {
          const upload = await uploads.find(id);
          if (upload?.state !== 'open' || upload.expiresAtMs > Date.now()) return;
          await completion.discard(id, { state: 'expired' });
          logger.info({ uploadId: id }, 'upload given up: nothing came for a long time');
        })
        .catch(logAndGoOn({ id }));
    }
    await uploads.forget(Date.now());
  };

  return {
    async start() {
      if (!shared) await uploads.unlockAll();
      await files.clean();
      const whole = await sweep().catch(sweepLater);
      if (!shared) await takeRoom();
      for (const upload of whole) {
        if (shared && !isAbandoned(upload)) continue;
        queue(() => acceptWhole(upload), 'upload could not be accepted after the start');
      }
      const pauseMs = Math.min(LONGEST_PAUSE_MS, expiryMs / 4);
      timer = setInterval(() => queue(removeAbandoned, 'abandoned uploads could not be removed'), pauseMs).unref();
    },
    async stop() {
      stopping = true;
      clearInterval(timer);
      await working;
    },
  };
}
