import { AppError } from './app-error.ts';

/** Codes of a full volume and of one that cannot be written. SQLite has its own. */
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'SQLITE_FULL']);
const NO_RIGHT = new Set(['EROFS', 'EACCES', 'EPERM', 'SQLITE_READONLY', 'SQLITE_READONLY_DBMOVED']);

/** The system's code of an error (`ENOSPC`, `SQLITE_FULL`), or null if it has none. */
export function systemCode(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return null;
  return error.code;
}

/**
 * The error to show a caller for a failed write: `insufficient_storage` (507, RFC 4918, section 11.5) if the volume is full,
 * over quota or read-only; any other error unchanged.
 */
export function storageError(error: unknown): unknown {
  const code = systemCode(error);
  if (code === null) return error;
  if (NO_ROOM.has(code)) return storageFull(error);
  if (NO_RIGHT.has(code)) return storageReadOnly(error);
  return error;
}

/** The storage has no room. */
export function storageFull(cause: unknown, headers: Record<string, string> = {}): AppError {
  const detail = 'The storage is full. Nothing was kept. Try again when there is room.';
  return new AppError('insufficient_storage', detail, { cause, headers });
}

/** The storage refuses writes. */
export function storageReadOnly(cause: unknown): AppError {
  const detail = 'The storage is read-only. Nothing was kept. Its operator must make it writable.';
  return new AppError('insufficient_storage', detail, { cause });
}
