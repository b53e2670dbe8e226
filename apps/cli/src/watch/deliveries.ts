import { basename, join } from 'node:path';
import type { Client } from '@mds/client';
import { fileContent } from '../ingest/file-content.ts';
import type { IngestFile } from '../ingest/find-files.ts';
import { type IngestOutcome, outcomeOf } from '../ingest/ingest-files.ts';
import type { SendFile } from '../ingest/send-file.ts';
import { reasonOf } from '../ingest/walk-folder.ts';
import type { Journal } from '../journal/journal.ts';
import { startTransfer, type Transfer } from '../output/progress.ts';
import { type Delivery, deliver } from './deliver.ts';
import { type Done, finishFile } from './done-action.ts';
import { hasMedia } from './has-media.ts';
import type { ServiceGate } from './service-gate.ts';
import type { Candidate } from './settling.ts';

/** A file that has settled. */
export interface SettledFile {
  file: Candidate;
  /** Its path relative to the watched folder. */
  shown: string;
  /** Whether the journal records that the service has it. Then it is only moved or deleted. */
  accepted: boolean;
}

/** The parts and settings of {@link Deliveries}. */
export interface DeliveriesOptions {
  client: Client;
  send: SendFile;
  journal: Journal;
  gate: ServiceGate;
  done: Done;
  /** How many files are sent at once. */
  parallel: number;
  /** The watched folder, as the user named it. */
  label: string;
  /** No file is started after this. */
  stop: AbortSignal;
  /** Cuts off running transfers. */
  cut: AbortSignal;
  onStart(transfer: Transfer): void;
  onEnd(transfer: Transfer): void;
  onOutcome(outcome: IngestOutcome): void;
  /** The file is done, or must be inspected again. */
  release(path: string): void;
  /** @returns whether this reason is new for the file */
  defer(path: string, why: string): Promise<boolean>;
  /** An error that every file would meet: a refused token, a journal that cannot be written. */
  onFatal(error: unknown): void;
}

/** Sends settled files to the service, several at once. */
export interface Deliveries {
  add(file: SettledFile): void;
  /** Resolves when no file is being processed. */
  idle(): Promise<void>;
  /** The number of files in the queue. */
  readonly waiting: number;
}

/** Makes {@link Deliveries}. */
export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { client, journal, gate, done, label, stop, cut } = options;
  const queue: SettledFile[] = [];
  const active = new Set<Promise<void>>();

  const startNext = () => {
    while (active.size < options.parallel && !stop.aborted) {
      const next = queue.shift();
      if (!next) return;
      const task: Promise<void> = processFile(next)
        .catch((error: unknown) => {
          if (!stop.aborted && !cut.aborted) options.onFatal(error);
        })
        .finally(() => {
          active.delete(task);
          startNext();
        });
      active.add(task);
    }
  };
  const processFile = async (settled: SettledFile) => {
    const { file, shown, accepted } = settled;
    const transfer = startTransfer(join(label, shown), file.version.bytes);
    options.onStart(transfer);
    try {
      if (!accepted || !(await isStillStored(settled))) {
        const delivery = await deliver(options.send, sendable(file, join(label, shown)), transfer, gate, { stop, cut });
        if (!(await recordDelivery(settled, delivery))) return;
      }
      await finishDelivered(settled);
    } finally {
      options.onEnd(transfer);
    }
  };
  /** Asks the service before a file is deleted because of a journal entry. */
  const isStillStored = async ({ file, shown }: SettledFile) => {
    const id = journal.find(shown, file.version)?.media_id;
    return id !== null && id !== undefined && (await hasMedia(client, id, gate, stop));
  };
  /** @returns whether the service has the file */
  const recordDelivery = async ({ file, shown }: SettledFile, delivery: Delivery): Promise<boolean> => {
    const { bytes, mtimeMs } = file.version;
    const { outcome } = delivery;
    if (delivery.kind === 'later') {
      const { code, message } = delivery.failure;
      if (code !== 'file_unreadable') options.release(file.path);
      else if (await options.defer(file.path, message)) options.onOutcome(outcome);
      return false;
    }
    const accepted = delivery.kind === 'accepted';
    journal.record({
      path: shown,
      bytes,
      mtime_ms: mtimeMs,
      state: accepted ? 'accepted' : 'refused',
      media_id: outcome.media_id,
      code: outcome.error?.code ?? null,
      message: outcome.error?.message ?? null,
    });
    options.onOutcome(outcome);
    if (!accepted) options.release(file.path);
    return accepted;
  };
  const finishDelivered = async ({ file, shown }: SettledFile) => {
    const { path, version, link } = file;
    try {
      const gone = !link && (await finishFile({ path, relative: shown, version }, done));
      if (gone) {
        const { bytes, mtimeMs } = version;
        const entry = { path: shown, bytes, mtime_ms: mtimeMs, media_id: null, code: null, message: null };
        journal.record({ ...entry, state: 'gone' });
      }
      options.release(path);
    } catch (error) {
      const action = done.how === 'move' ? 'moved' : 'deleted';
      const message = `It was ingested, but cannot be ${action}: ${reasonOf(error, path)}.`;
      const failure = { code: 'file_not_finished', message };
      if (await options.defer(path, message))
        options.onOutcome(outcomeOf({ label: join(label, shown) }, 'failed', null, failure));
    }
  };

  return {
    add(file) {
      queue.push(file);
      startNext();
    },
    async idle() {
      while (active.size > 0) await Promise.all(active);
    },
    get waiting() {
      return queue.length;
    },
  };
}

function sendable({ path, version }: Candidate, label: string): IngestFile {
  return {
    label,
    source: { path, version },
    filename: basename(path),
    bytes: version.bytes,
    content: () => fileContent(path, version),
  };
}
