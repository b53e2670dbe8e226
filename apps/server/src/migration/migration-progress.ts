import type { ObjectStore } from '../storage/object-store.ts';
import type { DestinationDatabase } from './destination.ts';
import type { ObjectFigures } from './object-copy.ts';
import type { TableSum } from './rows-checksum.ts';

export type MigrationState = 'running' | 'done' | 'failed' | 'canceled';
export type MigrationPhase = 'objects' | 'rows' | 'verify' | 'freeze' | 'changes' | 'done';

/** What is wrong, with the object that it is about. */
export interface MigrationError {
  key: string | null;
  message: string;
}

/** What there is to do, as counted when it begins. */
export interface MigrationExtent {
  objects: number;
  bytes: number;
  rows: number;
}

/** How far a move is. */
export interface MigrationProgress {
  state: MigrationState;
  phase: MigrationPhase;
  startedAtMs: number;
  endedAtMs: number | null;
  /** Whether writes are refused at the moment. */
  frozen: boolean;
  /** Since when they have been refused; null: they never were. */
  frozenAtMs: number | null;
  destination: { database: string; storage: string };
  /** Null until it is counted. */
  extent: MigrationExtent | null;
  objects: ObjectFigures;
  copiedRows: number;
  /** Once they are verified: equal on both sides. */
  tables: ({ name: string } & TableSum)[];
  /** Resumable uploads that were on their way, of which nothing moves; known from the freeze on. */
  openUploads: number | null;
  /** All of them, and the first few. */
  errorCount: number;
  errors: MigrationError[];
}

/** Where to: opened, and closed when the move is over. */
export interface Destination {
  database: DestinationDatabase;
  store: ObjectStore;
  /** What the storage is called; holds no secret. */
  storageShown: string;
  close(): Promise<void>;
}
