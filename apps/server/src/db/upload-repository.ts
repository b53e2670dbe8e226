import { and, asc, eq, getTableColumns, gt, isNotNull, isNull, lte, ne, sql } from 'drizzle-orm';
import { changedRows, type Dialect } from './dialect.ts';
import type { MediaFailureRecord } from './media-repository.ts';

/**
 * `open`: bytes may arrive, or all have arrived and are not accepted yet. The others have ended: `accepted` as a media
 * object, `rejected` because of its content, `terminated` by its sender, `expired` because no bytes arrived.
 */
export type UploadState = 'open' | 'accepted' | 'rejected' | 'terminated' | 'expired';

/** A resumable upload. How many bytes are there, only its file knows. Instants are milliseconds since the epoch. */
export interface UploadRecord {
  id: string;
  projectId: string;
  /** SHA-256 of the token that created it, by which open uploads are counted. */
  tokenSha256: string;
  createdAtMs: number;
  /** Extended with every byte while the upload is open. After its end, the time when its row is deleted. */
  expiresAtMs: number;
  /** As the client sent it, and as it is returned. */
  metadata: Record<string, string | null> | null;
  filename: string | null;
  duplicate: 'existing' | 'allow';
  idempotencyKey: string | null;
  /** The SHA-256 that the client announced, as hexadecimal digits. */
  expectedSha256: string | null;
  /** Size in bytes; null until the client has declared it. */
  length: number | null;
  state: UploadState;
  mediaId: string | null;
  /** Whether the media object was made by this upload; null unless `accepted`. */
  mediaCreated: boolean | null;
  /** Why it was rejected. */
  failure: Pick<MediaFailureRecord, 'code' | 'message'> | null;
}

export type NewUpload = Omit<UploadRecord, 'state' | 'mediaId' | 'mediaCreated' | 'failure'>;

/** How an upload ended. */
export type UploadOutcome =
  | { state: 'accepted'; mediaId: string; mediaCreated: boolean }
  | { state: 'rejected'; failure: NonNullable<UploadRecord['failure']> }
  | { state: 'terminated' | 'expired' };

/** The process that holds the lock of an upload: a name that no two processes share, and its heartbeat, which counts up. */
export interface UploadLockHolder {
  holder: string;
  beat: number;
}

/** Resumable uploads and their locks. Over all processes, each lock has one holder at a time. Null if nothing is found. */
export interface UploadRepository {
  /** False: the token has `maxOpen` open uploads already, and nothing was written. */
  create(upload: NewUpload, options: { maxOpen: number }): Promise<boolean>;
  find(id: string): Promise<UploadRecord | null>;
  /** Sets the length of an open upload that has none yet. False: there is no such upload. */
  declareLength(id: string, length: number): Promise<boolean>;
  /** Moves the expiry of an open upload. */
  postpone(id: string, expiresAtMs: number): Promise<void>;
  /** Ends an open upload. Its row stays until `expiresAtMs`. False: it is over already. */
  finish(id: string, outcome: UploadOutcome, expiresAtMs: number): Promise<boolean>;
  /** Open uploads in the order of creation, after an id. */
  open(query: { after: string | null; limit: number }): Promise<UploadRecord[]>;
  countOpen(): Promise<number>;
  /** Open uploads that have expired, the longest overdue first. */
  overdue(nowMs: number, limit: number): Promise<UploadRecord[]>;
  /** Deletes the rows of uploads that are over, once their time has come. @returns how many */
  forget(nowMs: number): Promise<number>;

  /** Takes the lock if it is free. @returns null if it was; else its holder, or `undefined` if there is no such upload */
  lock(id: string, holder: string): Promise<UploadLockHolder | null | undefined>;
  /** Takes the lock from a dead holder: one whose heartbeat has not moved since. */
  takeLock(id: string, from: UploadLockHolder, holder: string): Promise<boolean>;
  /** Asks the holder to release the lock. */
  requestRelease(id: string): Promise<void>;
  /** Ids of the uploads whose locks a holder is asked to release. */
  releaseRequested(holder: string): Promise<string[]>;
  /** Sends the heartbeat of a holder. @returns ids of the uploads whose locks it has */
  beat(holder: string): Promise<string[]>;
  unlock(id: string, holder: string): Promise<void>;
  /** Releases every lock, when the one process that owns the data folder starts. */
  unlockAll(): Promise<void>;
}

/** Creates the {@link UploadRepository}. */
export function createUploadRepository({ tables, ...db }: Dialect): UploadRepository {
  const { uploads } = tables;
  const { lockHolder, lockBeat, lockReleaseRequested, ...recordColumns } = getTableColumns(uploads);
  const unlocked = { lockHolder: null, lockBeat: 0, lockReleaseRequested: false };
  const isOpen = eq(uploads.state, 'open');
  const isOpenUpload = (id: string) => and(eq(uploads.id, id), isOpen);
  const select = () => db.read.select(recordColumns).from(uploads);

  return {
    create: (upload, { maxOpen }) =>
      db.write(async (tx) => {
        // Without it, all that count at the same time would find room for one more.
        await tx.lock(`uploads of ${upload.tokenSha256}`);
        const open = await tx.db.$count(uploads, and(eq(uploads.tokenSha256, upload.tokenSha256), isOpen));
        if (open >= maxOpen) return false;
        await tx.db.insert(uploads).values({ ...upload, state: 'open' });
        return true;
      }),

    async find(id) {
      const [row] = await select().where(eq(uploads.id, id));
      return row ?? null;
    },

    async declareLength(id, length) {
      const undeclared = and(isOpenUpload(id), isNull(uploads.length));
      return changedRows(await db.change((on) => on.update(uploads).set({ length }).where(undeclared))) > 0;
    },

    async postpone(id, expiresAtMs) {
      await db.change((on) => on.update(uploads).set({ expiresAtMs }).where(isOpenUpload(id)));
    },

    async finish(id, outcome, expiresAtMs) {
      const values = { ...outcome, expiresAtMs };
      return changedRows(await db.change((on) => on.update(uploads).set(values).where(isOpenUpload(id)))) > 0;
    },

    async open({ after, limit }) {
      const later = after === null ? undefined : gt(uploads.id, after);
      return select().where(and(isOpen, later)).orderBy(asc(uploads.id)).limit(limit);
    },

    countOpen: async () => db.read.$count(uploads, isOpen),

    async overdue(nowMs, limit) {
      const isOverdue = and(isOpen, lte(uploads.expiresAtMs, nowMs));
      return select().where(isOverdue).orderBy(asc(uploads.expiresAtMs)).limit(limit);
    },

    async forget(nowMs) {
      const over = and(ne(uploads.state, 'open'), lte(uploads.expiresAtMs, nowMs));
      return changedRows(await db.change((on) => on.delete(uploads).where(over)));
    },

    async lock(id, holder) {
      for (;;) {
        const taken = { ...unlocked, lockHolder: holder };
        const free = and(eq(uploads.id, id), isNull(lockHolder));
        if (changedRows(await db.hold((on) => on.update(uploads).set(taken).where(free))) > 0) return null;
        const [row] = await db.read
          .select({ holder: lockHolder, beat: lockBeat })
          .from(uploads)
          .where(eq(uploads.id, id));
        if (row === undefined) return undefined;
        // Between the two statements it may have been unlocked.
        if (row.holder !== null) return { holder: row.holder, beat: row.beat };
      }
    },

    async takeLock(id, from, holder) {
      const unchanged = and(eq(uploads.id, id), eq(lockHolder, from.holder), eq(lockBeat, from.beat));
      const taken = { ...unlocked, lockHolder: holder };
      return changedRows(await db.hold((on) => on.update(uploads).set(taken).where(unchanged))) > 0;
    },

    async requestRelease(id) {
      await db.hold((on) => on.update(uploads).set({ lockReleaseRequested: true }).where(eq(uploads.id, id)));
    },

    async releaseRequested(holder) {
      const asked = and(eq(lockHolder, holder), eq(lockReleaseRequested, true));
      const rows = await db.read.select({ id: uploads.id }).from(uploads).where(asked);
      return rows.map(({ id }) => id);
    },

    async beat(holder) {
      const beat = { lockBeat: sql`${lockBeat} + 1` };
      const held = eq(lockHolder, holder);
      const rows = await db.hold((on) => on.update(uploads).set(beat).where(held).returning({ id: uploads.id }));
      return rows.map(({ id }) => id);
    },

    async unlock(id, holder) {
      const held = and(eq(uploads.id, id), eq(lockHolder, holder));
      await db.hold((on) => on.update(uploads).set(unlocked).where(held));
    },

    async unlockAll() {
      await db.hold((on) => on.update(uploads).set(unlocked).where(isNotNull(lockHolder)));
    },
  };
}
