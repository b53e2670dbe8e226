import { and, desc, eq, lt, type SQL, sql } from 'drizzle-orm';
import type { MediaRecord, MediaRepository, PublicMediaRecord } from '../media-repository.ts';
import { type SqliteDatabase, versionReader } from './database.ts';
import { media } from './schema.ts';

export type MediaQueries = Pick<
  MediaRepository,
  'find' | 'findBySha256' | 'findByIdempotencyKey' | 'countQueued' | 'page' | 'publicPage' | 'version'
>;

/** Media that a project has already, as what is about to be taken in may be one of them. Also inside a transaction of the same connection. */
export interface KnownMedia {
  /** The oldest with these bytes. */
  bySha256(projectId: string, sha256: string): MediaRecord | null;
  byIdempotencyKey(projectId: string, key: string): MediaRecord | null;
}

/** {@link KnownMedia}, asked twice for each file that arrives: prepared once. */
export function createKnownMedia(db: SqliteDatabase): KnownMedia {
  const ofProject = eq(media.projectId, sql.placeholder('projectId'));
  const bySha256 = db
    .select()
    .from(media)
    .where(and(eq(media.sha256, sql.placeholder('sha256')), ofProject))
    // The unary plus keeps SQLite from reading all media of the project in the order of `id` instead of the index by content.
    .orderBy(sql`+${media.id}`)
    .limit(1)
    .prepare();
  const byIdempotencyKey = db
    .select()
    .from(media)
    .where(and(ofProject, eq(media.idempotencyKey, sql.placeholder('key'))))
    .prepare();
  return {
    bySha256: (projectId, sha256) => bySha256.get({ projectId, sha256 }) ?? null,
    byIdempotencyKey: (projectId, key) => byIdempotencyKey.get({ projectId, key }) ?? null,
  };
}

/** What is asked of media themselves, one by one and page by page. */
export function createMediaQueries(db: SqliteDatabase): MediaQueries {
  const readVersion = versionReader(db, 'media');
  const known = createKnownMedia(db);
  // Prepared once and without a mapper: a page of 100 costs a tenth of what the query builder takes.
  const publicColumns = 'id, created_at_ms AS createdAtMs, content_type AS contentType, bytes, width, height, status';
  const firstPublicPage = db.$client.prepare<[string, number], PublicMediaRecord>(
    `SELECT ${publicColumns} FROM media WHERE project_id = ? ORDER BY id DESC LIMIT ?`,
  );
  const nextPublicPage = db.$client.prepare<[string, string, number], PublicMediaRecord>(
    `SELECT ${publicColumns} FROM media WHERE project_id = ? AND id < ? ORDER BY id DESC LIMIT ?`,
  );

  return {
    async find(id) {
      return db.select().from(media).where(eq(media.id, id)).get() ?? null;
    },

    async findBySha256(projectId, sha256) {
      return known.bySha256(projectId, sha256);
    },

    async findByIdempotencyKey(projectId, key) {
      return known.byIdempotencyKey(projectId, key);
    },

    async countQueued(projectId) {
      return db.$count(media, and(eq(media.projectId, projectId), eq(media.status, 'queued')));
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

    async version() {
      return readVersion();
    },
  };
}
