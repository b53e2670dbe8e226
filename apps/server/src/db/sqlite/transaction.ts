import type { SqliteDatabase } from './database.ts';

/** What is written together or not at all; begun and ended by whoever calls. */
export type Transaction = Parameters<Parameters<SqliteDatabase['transaction']>[0]>[0];

/** Immediate: a transaction that will write takes the lock at once, so that it never fails half-way for being late. */
export const WRITE = { behavior: 'immediate' } as const;
