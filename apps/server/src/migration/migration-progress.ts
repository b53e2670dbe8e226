import type { ObjectStore } from '../storage/object-store.ts';
import type { DestinationDatabase } from './destination.ts';
import type { ObjectFigures } from './object-copy.ts';
import type { TableSum } from './rows-checksum.ts';

export type MigrationState = 'running' | 'done' | 'failed' | 'canceled';
export type MigrationPhase = 'objects' | 'rows' | 'verify' | 'freeze' | 'changes' | 'done';

/** An error, with the object that it is about. */
export interface MigrationError {
  key: string | null;
  message: string;
}

/** The amount of work, as counted at the beginning. */
export interface MigrationExtent {
  objects: number;
  bytes: number;
  rows: number;
}

/** The progress of a move. */
export interface MigrationProgress {
  state: MigrationState;
  phase: MigrationPhase;
  startedAtMs: number;
  endedAtMs: number | null;
  /** Whether writes are refused now. */
  frozen: boolean;
  /** Since when writes are refused; null: they never were. */
  frozenAtMs: number | null;
  destination: { database: string; storage: string };
  /** Null until it is counted. */
  extent: MigrationExtent | null;
  objects: ObjectFigures;
  copiedRows: number;
  /** Filled when they are verified as equal on both sides. */
  tables: ({ name: string } & TableSum)[];
  /** Unfinished resumable uploads, which do not move; known from the freeze on. */
  openUploads: number | null;
  /** The number of all errors, and the first few of them. */
  errorCount: number;
  errors: MigrationError[];
}

/** The destination of a move: opened before it, closed after it. */
export interface Destination {
  database: DestinationDatabase;
  store: ObjectStore;
  /** Name of the storage, without secrets. */
  storageShown: string;
  close(): Promise<void>;
}
