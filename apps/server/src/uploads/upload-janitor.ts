import { AppError } from '../base/app-error.ts';
import type { Logger } from '../base/logger.ts';
import type { UploadRecord, UploadRepository } from '../db/upload-repository.ts';
import type { WriteGate } from '../migration/write-gate.ts';
import type { UploadCompletion } from './upload-completion.ts';
import type { UploadFiles } from './upload-files.ts';
import type { UploadLocker } from './upload-locker.ts';
import type { UploadProgress } from './upload-progress.ts';

/** Looks for what is overdue this often, or four times within the expiry where that is short; in milliseconds. */
const LONGEST_PAUSE_MS = 60_000;
const PAGE = 200;
/** Where several processes take uploads: what others left is looked for this often, and taken up when nothing came for so long. */
const SWEEP_MS = 10 * 60_000;
const ABANDONED_MS = 60_000;

export interface UploadJanitorParts {
  uploads: Pick<UploadRepository, 'open' | 'find' | 'overdue' | 'forget' | 'unlockAll'>;
  files: UploadFiles;
  progress: UploadProgress;
  completion: UploadCompletion;
  locker: Pick<UploadLocker, 'run' | 'isHeld'>;
  /** Whether other processes take uploads over the same database. */
  shared: boolean;
  /** Whether what nobody knows may be removed: not as long as it may be somebody else's. Default: it may. */
  mayRemove?: () => boolean;
  /** Who accepts a media object passes it. Default: nobody is kept out. */
  writes?: Pick<WriteGate, 'enter'>;
  expiryMs: number;
  logger: Logger;
}

/** Takes up what a restart interrupted, and clears away what was abandoned. */
export interface UploadJanitor {
  /**
   * Removes bytes without an upload, and then, without waiting for it, accepts what is whole. A process that is alone with the database
   * frees all locks before, and takes room for what is on its way; others may have theirs still.
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

  /** A store of several nodes may be away for a while, which is no reason not to start. */
  const sweepLater = (error: unknown): UploadRecord[] => {
    if (!shared || !(error instanceof AppError)) throw error;
    logger.warn({ err: error }, 'what uploads have left could not be looked for; later');
    sweptAtMs = Number.NEGATIVE_INFINITY;
    return [];
  };

  /** Takes room for every upload that is on its way, of which there may be no byte yet. */
  const takeRoom = async () => {
    for (let after: string | null = null; ; ) {
      const page: UploadRecord[] = await uploads.open({ after, limit: PAGE });
      for (const upload of page) progress.of(upload, await files.size(upload.id));
      if (page.length < PAGE) return;
      after = page.at(-1)?.id ?? null;
    }
  };

  /** Whoever received it seems to be gone. The clocks of several machines need not agree to the second for that. */
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
        // It is recorded, or is tried again when its sender asks.
        if (!(error instanceof AppError)) throw error;
      }
    });
  };

  /** Lets go of what came to its end in another process, and takes up what others left. */
  const followOthers = async () => {
    for (const id of progress.known()) {
      if (locker.isHeld(id) || (await uploads.find(id))?.state === 'open') continue;
      progress.end(id);
      await files.remove(id);
    }
    if (performance.now() - sweptAtMs < SWEEP_MS) return;
    for (const upload of await sweep()) if (isAbandoned(upload)) await acceptWhole(upload).catch(passOver(upload));
  };

  /** One that another request or node has, or that fails, keeps none of the others. */
  const passOver =
    ({ id }: Pick<UploadRecord, 'id'>) =>
    (error: unknown) =>
      logger.warn({ err: error, uploadId: id }, 'an abandoned upload could not be cleared away');

  const clearAway = async () => {
    if (shared) await followOthers();
    for (const { id } of await uploads.overdue(Date.now(), PAGE)) {
      if (stopping) return;
      // Bytes are coming.
      if (locker.isHeld(id)) continue;
      await locker
        .run(id, async () => {
          const upload = await uploads.find(id);
          if (upload?.state !== 'open' || upload.expiresAtMs > Date.now()) return;
          await completion.discard(id, { state: 'expired' });
          logger.info({ uploadId: id }, 'an upload was given up, as nothing came for a long time');
        })
        .catch(passOver({ id }));
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
        queue(() => acceptWhole(upload), 'an upload could not be accepted after the start');
      }
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
