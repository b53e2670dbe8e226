import { and, desc, eq, inArray, lt, ne, type SQL, sql } from 'drizzle-orm';
import { type AttemptReport, type Lease, MAX_LOST_LEASES } from '../../jobs/job-queue.ts';
import { originalKey } from '../../storage/object-store.ts';
import type {
  Acceptance,
  MediaFailureRecord,
  MediaRecord,
  MediaRepository,
  NewRendition,
  ProcessingResult,
  PublicMediaRecord,
} from '../media-repository.ts';
import { endAttempt } from './attempts.ts';
import { bumpVersion, type SqliteDatabase, versionReader } from './database.ts';
import type { EventWriter } from './event-repository.ts';
import { jobs, media, mediaRenditions, pieceDigests, renditionFiles } from './schema.ts';

type Transaction = Parameters<Parameters<SqliteDatabase['transaction']>[0]>[0];

/** Immediate: a transaction that will write takes the lock at once, so that it never fails half-way for being late. */
const WRITE = { behavior: 'immediate' } as const;
export const DEFAULT_PRIORITY = 100;
/** Joins a file to the rendition that it is of. */
const renditionOfFile = and(
  eq(mediaRenditions.mediaId, renditionFiles.mediaId),
  eq(mediaRenditions.name, renditionFiles.name),
  eq(mediaRenditions.extension, renditionFiles.extension),
  eq(mediaRenditions.revision, renditionFiles.revision),
);

const isReady = eq(mediaRenditions.state, 'ready');
/** A value that a prepared query is given when it runs. */
const $ = sql.placeholder;

/** {@link MediaRepository} over SQLite. @param parts.now the wall clock, milliseconds since the epoch */
export function createMediaRepository(
  db: SqliteDatabase,
  parts: { events: EventWriter; now?: () => number },
): MediaRepository {
  const { events, now = Date.now } = parts;
  const readVersion = versionReader(db, 'media');
  // Prepared once and without a mapper: a page of 100 costs a tenth of what the query builder takes.
  const publicColumns = 'id, created_at_ms AS createdAtMs, content_type AS contentType, bytes, width, height, status';
  const firstPublicPage = db.$client.prepare<[string, number], PublicMediaRecord>(
    `SELECT ${publicColumns} FROM media WHERE project_id = ? ORDER BY id DESC LIMIT ?`,
  );
  const nextPublicPage = db.$client.prepare<[string, string, number], PublicMediaRecord>(
    `SELECT ${publicColumns} FROM media WHERE project_id = ? AND id < ? ORDER BY id DESC LIMIT ?`,
  );

  // Asked on every miss of delivery: building the query anew takes ten times as long as running it.
  const ofPath = and(eq(mediaRenditions.mediaId, $('mediaId')), eq(mediaRenditions.name, $('name')), isReady);
  const currentOrThis = (which: SQL) => ({
    rendition: db
      .select()
      .from(mediaRenditions)
      .where(and(ofPath, eq(mediaRenditions.extension, $('extension')), which))
      .prepare(),
    file: db
      .select({ file: renditionFiles, updatedAtMs: mediaRenditions.updatedAtMs })
      .from(renditionFiles)
      .innerJoin(mediaRenditions, renditionOfFile)
      .where(
        and(
          eq(renditionFiles.mediaId, $('mediaId')),
          eq(renditionFiles.name, $('name')),
          eq(renditionFiles.file, $('file')),
          isReady,
          which,
        ),
      )
      .prepare(),
  });
  const ofCurrentRevision = currentOrThis(eq(mediaRenditions.current, true));
  const ofRevision = currentOrThis(eq(mediaRenditions.revision, $('revision')));

  const insertJob = (tx: Transaction, mediaId: string, priority: number) =>
    tx
      .insert(jobs)
      .values({ mediaId, priority, dueAtMs: now() })
      // One that is under way or waiting will do.
      .onConflictDoNothing({ target: jobs.mediaId })
      .run();

  const findExisting = (
    tx: Transaction,
    projectId: string,
    sha256: string,
    options: { duplicate: 'existing' | 'allow'; idempotencyKey: string | null },
  ): MediaRecord | undefined => {
    if (options.idempotencyKey !== null) {
      const made = tx
        .select()
        .from(media)
        .where(and(eq(media.projectId, projectId), eq(media.idempotencyKey, options.idempotencyKey)))
        .get();
      if (made) return made;
    }
    if (options.duplicate === 'allow') return undefined;
    return tx
      .select()
      .from(media)
      .where(and(eq(media.sha256, sha256), eq(media.projectId, projectId)))
      .orderBy(media.id)
      .limit(1)
      .get();
  };

  /** Runs `write` if the lease still stands; the fence of every write that a worker makes. */
  const underLease = (lease: Lease, write: (tx: Transaction) => void): boolean =>
    db.transaction((tx) => {
      const held = tx
        .select({ id: jobs.id })
        .from(jobs)
        .where(and(eq(jobs.id, lease.jobId), eq(jobs.leaseToken, lease.token)))
        .get();
      if (!held) return false;
      write(tx);
      bumpVersion(tx, 'media');
      return true;
    }, WRITE);

  /** Writes renditions, and tells of those that became ready or failed. */
  const publishRenditions = (tx: Transaction, mediaId: string, renditions: readonly NewRendition[]) => {
    const before = new Map(
      tx
        .select()
        .from(mediaRenditions)
        .where(eq(mediaRenditions.mediaId, mediaId))
        .all()
        .map((row) => [renditionIdentity(row), row]),
    );
    // What was published while the others were made stays as it is: its Last-Modified, above all.
    const changed = renditions.filter((rendition) => {
      const row = before.get(renditionIdentity(rendition));
      return !(row?.state === 'ready' && rendition.state === 'ready' && row.sha256 === rendition.sha256);
    });
    putRenditions(tx, mediaId, changed);
    const projectId = projectOf(tx, mediaId);
    for (const rendition of changed) {
      const { name, extension, revision, state, reason } = rendition;
      const data = { id: mediaId, name, extension, revision };
      if (state === 'ready') events.append(tx, { projectId, type: 'rendition.ready', data });
      else if (state === 'failed' && before.get(renditionIdentity(rendition))?.state !== 'failed') {
        events.append(tx, { projectId, type: 'rendition.failed', data: { ...data, reason } });
      }
    }
  };

  const putRenditions = (tx: Transaction, mediaId: string, renditions: readonly NewRendition[]) => {
    for (const rendition of renditions) {
      const row = { ...rendition, mediaId, updatedAtMs: now() };
      const siblings = and(
        eq(mediaRenditions.mediaId, mediaId),
        eq(mediaRenditions.name, row.name),
        eq(mediaRenditions.extension, row.extension),
        ne(mediaRenditions.revision, row.revision),
      );
      if (row.current && row.state === 'ready') {
        tx.update(mediaRenditions).set({ current: false }).where(siblings).run();
      } else if (row.current) {
        // Until a new revision is ready, paths without a revision go on delivering the old one.
        const delivered = and(siblings, eq(mediaRenditions.current, true), eq(mediaRenditions.state, 'ready'));
        row.current = tx.select().from(mediaRenditions).where(delivered).get() === undefined;
      }
      tx.insert(mediaRenditions)
        .values(row)
        .onConflictDoUpdate({
          target: [mediaRenditions.mediaId, mediaRenditions.name, mediaRenditions.extension, mediaRenditions.revision],
          set: row,
        })
        .run();
    }
  };

  return {
    async find(id) {
      return db.select().from(media).where(eq(media.id, id)).get() ?? null;
    },

    async findBySha256(projectId, sha256) {
      const where = and(eq(media.sha256, sha256), eq(media.projectId, projectId));
      return db.select().from(media).where(where).orderBy(media.id).limit(1).get() ?? null;
    },

    async findByIdempotencyKey(projectId, key) {
      const where = and(eq(media.projectId, projectId), eq(media.idempotencyKey, key));
      return db.select().from(media).where(where).get() ?? null;
    },

    async page({ projectId, limit, before, status }) {
      const conditions: (SQL | undefined)[] = [eq(media.projectId, projectId)];
      if (before !== null) conditions.push(lt(media.id, before));
      if (status) conditions.push(eq(media.status, status));
      return db
        .select()
        .from(media)
        .where(and(...conditions))
        .orderBy(desc(media.id))
        .limit(limit)
        .all();
    },

    async publicPage({ projectId, limit, before }) {
      return before === null ? firstPublicPage.all(projectId, limit) : nextPublicPage.all(projectId, before, limit);
    },

    async accept(record, options): Promise<Acceptance> {
      return db.transaction((tx) => {
        const existing = findExisting(tx, record.projectId, record.sha256, options);
        if (existing) return { media: existing, created: false };
        const row = tx
          .insert(media)
          .values({ ...record, status: 'queued', attempts: 0, idempotencyKey: options.idempotencyKey })
          .returning()
          .get();
        tellOfMedium(tx, events, row, 'media.created');
        insertJob(tx, record.id, options.priority ?? DEFAULT_PRIORITY);
        bumpVersion(tx, 'media');
        return { media: row, created: true };
      }, WRITE);
    },

    async retry(id) {
      return db.transaction((tx) => {
        const { changes } = tx
          .update(media)
          .set({ status: 'queued', failure: null, attempts: 0 })
          .where(and(eq(media.id, id), eq(media.status, 'failed')))
          .run();
        if (changes === 0 && !isReadyInPart(tx, id)) return false;
        // Nobody looks at what a ready medium failed of last time while that is made again.
        tx.update(media).set({ failure: null }).where(eq(media.id, id)).run();
        tx.update(mediaRenditions)
          .set({ state: 'pending', reason: null, updatedAtMs: now() })
          .where(and(eq(mediaRenditions.mediaId, id), eq(mediaRenditions.state, 'failed')))
          .run();
        insertJob(tx, id, DEFAULT_PRIORITY);
        bumpVersion(tx, 'media');
        return true;
      }, WRITE);
    },

    async rederive(objectKeys) {
      return db.transaction((tx) => {
        const ofFiles = tx
          .select({ key: mediaRenditions.objectKey })
          .from(renditionFiles)
          .innerJoin(mediaRenditions, renditionOfFile)
          .where(inArray(renditionFiles.objectKey, objectKeys))
          .all()
          .flatMap(({ key }) => (key === null ? [] : [key]));
        const keys = [...new Set([...objectKeys, ...ofFiles])];
        const lost = and(inArray(mediaRenditions.objectKey, keys), eq(mediaRenditions.state, 'ready'));
        const rows = tx.select({ id: mediaRenditions.mediaId }).from(mediaRenditions).where(lost).all();
        const ids = [...new Set(rows.map(({ id }) => id))];
        const unmade = { sha256: null, bytes: null, files: null, width: null, height: null, updatedAtMs: now() };
        // Today's presets do not make a superseded revision again.
        failRenditions(tx, events, and(lost, eq(mediaRenditions.current, false)), {
          ...unmade,
          reason: 'The stored rendition was damaged, and its preset has changed since.',
        });
        tx.update(mediaRenditions)
          .set({ ...unmade, state: 'pending', reason: null })
          .where(lost)
          .run();
        for (const id of ids) insertJob(tx, id, DEFAULT_PRIORITY);
        if (ids.length > 0) bumpVersion(tx, 'media');
        return ids;
      }, WRITE);
    },

    async delete(id) {
      return db.transaction((tx) => {
        const row = tx.select().from(media).where(eq(media.id, id)).get();
        if (!row) return null;
        const keys = tx
          .select({ key: mediaRenditions.objectKey })
          .from(mediaRenditions)
          .where(eq(mediaRenditions.mediaId, id))
          .all()
          .flatMap(({ key }) => (key === null ? [] : [key]));
        const fileKeys = tx
          .select({ key: renditionFiles.objectKey })
          .from(renditionFiles)
          .where(eq(renditionFiles.mediaId, id))
          .all()
          .map(({ key }) => key);
        const large = largeContents(tx, id);
        tx.delete(media).where(eq(media.id, id)).run();
        dropPieceDigests(tx, large);
        tellOfMedium(tx, events, row, 'media.deleted');
        bumpVersion(tx, 'media');
        const orphans = [...new Set([originalKey(row.sha256), ...keys, ...fileKeys])].filter(
          (key) => !isReferenced(tx, key),
        );
        return { media: row, orphans };
      }, WRITE);
    },

    async start(lease, planned) {
      return underLease(lease, (tx) => {
        const before = tx.select().from(media).where(eq(media.id, lease.mediaId)).get();
        if (before && before.status !== 'ready' && before.status !== 'processing') {
          tellOfMedium(tx, events, { ...before, status: 'processing' }, 'media.processing');
        }
        tx.update(media)
          // A medium that is ready stays so while it is rendered again.
          .set({
            status: sql`CASE ${media.status} WHEN 'ready' THEN 'ready' ELSE 'processing' END`,
            attempts: lease.attempt,
          })
          .where(eq(media.id, lease.mediaId))
          .run();
        const made = new Set(
          tx
            .select()
            .from(mediaRenditions)
            .where(and(eq(mediaRenditions.mediaId, lease.mediaId), eq(mediaRenditions.state, 'ready')))
            .all()
            .map(renditionIdentity),
        );
        putRenditions(
          tx,
          lease.mediaId,
          planned.filter((rendition) => !made.has(renditionIdentity(rendition))),
        );
      });
    },

    async reserveFiles(lease, { name, extension, revision }, files) {
      return underLease(lease, (tx) => {
        const { mediaId } = lease;
        const identity = { mediaId, name, extension, revision };
        const where = and(
          eq(renditionFiles.mediaId, mediaId),
          eq(renditionFiles.name, name),
          eq(renditionFiles.revision, revision),
        );
        tx.delete(renditionFiles).where(where).run();
        for (const file of files) {
          tx.insert(renditionFiles)
            .values({ ...file, ...identity })
            .run();
        }
      });
    },

    async publishRendition(lease, rendition) {
      return underLease(lease, (tx) => publishRenditions(tx, lease.mediaId, [rendition]));
    },

    async publish(lease, result: ProcessingResult, report: AttemptReport | null = null) {
      return underLease(lease, (tx) => {
        publishRenditions(tx, lease.mediaId, result.renditions);
        // Made under presets that are no more: nobody will make them.
        const unplanned = and(eq(mediaRenditions.mediaId, lease.mediaId), eq(mediaRenditions.state, 'pending'));
        failRenditions(tx, events, unplanned, {
          reason: 'Its preset does not exist any more.',
          updatedAtMs: now(),
        });
        const before = tx.select({ status: media.status }).from(media).where(eq(media.id, lease.mediaId)).get();
        const published = tx
          .update(media)
          .set({
            status: 'ready',
            failure: null,
            attempts: lease.attempt,
            thumbhash: result.thumbhash,
            warnings: result.warnings,
          })
          .where(eq(media.id, lease.mediaId))
          .returning()
          .get();
        if (published && before?.status !== 'ready') tellOfMedium(tx, events, published, 'media.ready');
        endAttempt(tx, lease.token, { outcome: 'ready', endedAtMs: now(), report });
        tx.delete(jobs).where(eq(jobs.id, lease.jobId)).run();
      });
    },

    async fail(lease, failure, report = null) {
      return underLease(lease, (tx) => {
        endAttempt(tx, lease.token, { outcome: 'failed', endedAtMs: now(), failure, report });
        failMedium(tx, events, { ...lease, failure, nowMs: now() });
      });
    },

    async renditions(mediaId) {
      return db.select().from(mediaRenditions).where(eq(mediaRenditions.mediaId, mediaId)).all();
    },

    async renditionsOf(mediaIds) {
      return db.select().from(mediaRenditions).where(inArray(mediaRenditions.mediaId, mediaIds)).all();
    },

    async findRendition({ mediaId, name, extension, revision }) {
      const { rendition } = revision === null ? ofCurrentRevision : ofRevision;
      return rendition.get({ mediaId, name, extension, revision }) ?? null;
    },

    async findFile({ mediaId, name, revision, file }) {
      const prepared = revision === null ? ofCurrentRevision : ofRevision;
      const found = prepared.file.get({ mediaId, name, revision, file });
      return found ? { ...found.file, updatedAtMs: found.updatedAtMs } : null;
    },

    async files(mediaId) {
      return db.select().from(renditionFiles).where(eq(renditionFiles.mediaId, mediaId)).all();
    },

    async findReadyObject(objectKey) {
      const rendition = db
        .select()
        .from(mediaRenditions)
        .where(and(eq(mediaRenditions.objectKey, objectKey), eq(mediaRenditions.state, 'ready')))
        .limit(1)
        .get();
      if (!rendition) return null;
      const { mediaId, name, extension, revision } = rendition;
      const own = and(
        eq(renditionFiles.mediaId, mediaId),
        eq(renditionFiles.name, name),
        eq(renditionFiles.extension, extension),
        eq(renditionFiles.revision, revision),
      );
      return { rendition, files: db.select().from(renditionFiles).where(own).all() };
    },

    async isReferenced(objectKey) {
      return isReferenced(db, objectKey);
    },

    async version() {
      return readVersion();
    },
  };
}

function renditionIdentity(rendition: { name: string; extension: string; revision: string }): string {
  return `${rendition.name}.${rendition.revision}.${rendition.extension}`;
}

function isReferenced(db: Pick<SqliteDatabase, 'select'>, objectKey: string): boolean {
  const sha256 = /^originals\/..\/([0-9a-f]{64})$/.exec(objectKey)?.[1];
  if (sha256 !== undefined) {
    return db.select({ id: media.id }).from(media).where(eq(media.sha256, sha256)).limit(1).get() !== undefined;
  }
  const where = eq(mediaRenditions.objectKey, objectKey);
  if (db.select({ id: mediaRenditions.mediaId }).from(mediaRenditions).where(where).limit(1).get()) return true;
  const ofFile = eq(renditionFiles.objectKey, objectKey);
  return db.select({ id: renditionFiles.mediaId }).from(renditionFiles).where(ofFile).limit(1).get() !== undefined;
}

/** A row of content that is larger than a piece; in the words of the partial indexes, which are used for them alone. */
const LARGE = sql.raw('bytes > 1048576');

/** SHA-256 of what a medium has that may have piece digests. */
function largeContents(tx: Transaction, mediaId: string): Set<string> {
  const found = new Set<string>();
  for (const table of [mediaRenditions, renditionFiles]) {
    const rows = tx
      .select({ sha256: table.sha256 })
      .from(table)
      .where(and(eq(table.mediaId, mediaId), LARGE))
      .all();
    for (const { sha256 } of rows) if (sha256 !== null) found.add(sha256);
  }
  return found;
}

/** Forgets the piece digests of what no rendition consists of any more. */
function dropPieceDigests(tx: Transaction, contents: Iterable<string>): void {
  for (const sha256 of contents) {
    const isNeeded = [mediaRenditions, renditionFiles].some(
      (table) =>
        tx
          .select({ one: sql`1` })
          .from(table)
          .where(and(eq(table.sha256, sha256), LARGE))
          .limit(1)
          .get() !== undefined,
    );
    if (!isNeeded) tx.delete(pieceDigests).where(eq(pieceDigests.sha256, sha256)).run();
  }
}

/** Whether a medium is ready while some of its renditions are not, for they failed. */
function isReadyInPart(tx: Transaction, id: string): boolean {
  const failed = tx
    .select({ id: media.id })
    .from(media)
    .innerJoin(mediaRenditions, eq(mediaRenditions.mediaId, media.id))
    .where(and(eq(media.id, id), eq(media.status, 'ready'), eq(mediaRenditions.state, 'failed')))
    .limit(1)
    .get();
  return failed !== undefined;
}

/** Writes what became of a medium into the events, in the transaction in which it did. */
function tellOfMedium(
  tx: Transaction,
  events: EventWriter,
  { id, projectId, status, failure }: Pick<MediaRecord, 'id' | 'projectId' | 'status' | 'failure'>,
  type: 'media.created' | 'media.processing' | 'media.ready' | 'media.failed' | 'media.deleted',
): void {
  events.append(tx, { projectId, type, data: { id, status, error: failure } });
}

/** Marks renditions as failed and tells of each, in the caller's transaction. */
function failRenditions(
  tx: Transaction,
  events: EventWriter,
  which: SQL | undefined,
  change: Partial<typeof mediaRenditions.$inferInsert> & { reason: string },
): void {
  const failed = tx
    .update(mediaRenditions)
    .set({ ...change, state: 'failed' })
    .where(which)
    .returning()
    .all();
  for (const { mediaId: id, name, extension, revision, reason } of failed) {
    const data = { id, name, extension, revision, reason };
    events.append(tx, { projectId: projectOf(tx, id), type: 'rendition.failed', data });
  }
}

function projectOf(tx: Transaction, mediaId: string): string | null {
  return tx.select({ id: media.projectId }).from(media).where(eq(media.id, mediaId)).get()?.id ?? null;
}

/** Ends a medium's processing for good; the caller holds the transaction and the right to do so. */
export function failMedium(
  tx: Transaction,
  events: EventWriter,
  ending: { jobId: number; mediaId: string; attempt: number; failure: MediaFailureRecord; nowMs: number },
): void {
  // Before the medium itself, as what became ready of one is told before it is.
  failRenditions(tx, events, and(eq(mediaRenditions.mediaId, ending.mediaId), eq(mediaRenditions.state, 'pending')), {
    reason: ending.failure.message,
    updatedAtMs: ending.nowMs,
  });
  const failed = tx
    .update(media)
    .set({
      // A medium that was ready goes on being delivered with what it has.
      status: sql`CASE ${media.status} WHEN 'ready' THEN 'ready' ELSE 'failed' END`,
      failure: ending.failure,
      attempts: ending.attempt,
    })
    .where(eq(media.id, ending.mediaId))
    .returning()
    .get();
  if (failed?.status === 'failed') tellOfMedium(tx, events, failed, 'media.failed');
  tx.delete(jobs).where(eq(jobs.id, ending.jobId)).run();
}

/** What is said of a medium whose workers kept disappearing. */
export const LOST_LEASES_FAILURE: MediaFailureRecord = {
  code: 'worker_lost',
  message: `Processing was begun ${MAX_LOST_LEASES} times, and each time its worker disappeared. Look into the service's log, then retry.`,
  retryable: true,
};
