import { AppError } from './app-error.ts';

/** What the system calls a volume that takes no more, or no writes at all; SQLite has names of its own. */
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'SQLITE_FULL']);
const NO_RIGHT = new Set(['EROFS', 'EACCES', 'EPERM', 'SQLITE_READONLY', 'SQLITE_READONLY_DBMOVED']);

/** The system's code of an error (`ENOSPC`, `SQLITE_FULL`), or null where it has none. */
export function systemCode(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return null;
  return error.code;
}

/**
 * Gives the error that a caller should see for a failed write: `insufficient_storage` (507, RFC 4918, section 11.5) where
 * the volume is full, over quota or read-only; anything else as it was.
 */
export function storageError(error: unknown): unknown {
  const code = systemCode(error);
  if (code === null) return error;
  if (NO_ROOM.has(code)) {
    return new AppError(
      'insufficient_storage',
      'The storage is full. Nothing was kept; try again when there is room.',
      {
        cause: error,
      },
    );
  }
  if (NO_RIGHT.has(code)) {
    return new AppError(
      'insufficient_storage',
      'The storage takes no writes at the moment. Nothing was kept; its operator has to make it writable.',
      { cause: error },
    );
  }
  return error;
}
