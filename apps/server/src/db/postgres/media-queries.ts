import { and, desc, eq, lt, sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { MediaRecord, MediaRepository, PublicMediaRecord } from '../media-repository.ts';
import { storableValues } from './columns.ts';
import { type PostgresDatabase, preparedQuery, type QuerySource, versionReader } from './database.ts';
import { media } from './schema.ts';

export type MediaQueries = Pick<
  MediaRepository,
  'find' | 'findBySha256' | 'findByIdempotencyKey' | 'countQueued' | 'page' | 'publicPage' | 'version'
>;

/** The oldest media object of a project with these bytes. */
export async function mediaOfContent(
  db: NodePgDatabase,
  projectId: string,
  sha256: string,
): Promise<MediaRecord | null> {
  const [row] = await db
    .select()
    .from(media)
    .where(and(eq(media.sha256, sha256), eq(media.projectId, projectId)))
    .orderBy(media.id)
    .limit(1);
  return row ?? null;
}

export async function mediaOfKey(db: NodePgDatabase, projectId: string, key: string): Promise<MediaRecord | null> {
  const ofKey = and(eq(media.projectId, projectId), eq(media.idempotencyKey, key));
  return (await db.select().from(media).where(ofKey))[0] ?? null;
}

/** What is asked of media themselves, one by one and page by page. */
export function createMediaQueries(db: PostgresDatabase, listening: QuerySource): MediaQueries {
  const readVersion = versionReader(listening);
  const find = db
    .select()
    .from(media)
    .where(eq(media.id, sql.placeholder('id')))
    .prepare('medium');
  // Without a mapper: a page of 100 costs a fraction of what the query builder takes.
  const columns =
    'id, created_at_ms AS "createdAtMs", content_type AS "contentType", bytes, width::bigint, height::bigint, status';
  const firstPublicPage = preparedQuery<PublicMediaRecord & Record<string, unknown>>(
    db,
    'first_public_page',
    `SELECT ${columns} FROM media WHERE project_id = $1 ORDER BY id DESC LIMIT $2`,
  );
  const nextPublicPage = preparedQuery<PublicMediaRecord & Record<string, unknown>>(
    db,
    'next_public_page',
    `SELECT ${columns} FROM media WHERE project_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`,
  );

  return {
    async find(id) {
      return (await find.execute(storableValues({ id })))[0] ?? null;
    },

    findBySha256: (projectId, sha256) => mediaOfContent(db, projectId, sha256),

    findByIdempotencyKey: (projectId, key) => mediaOfKey(db, projectId, key),

    async countQueued(projectId) {
      return db.$count(media, and(eq(media.projectId, projectId), eq(media.status, 'queued')));
    },

    async page({ projectId, limit, before, status }) {
      return db
        .select()
        .from(media)
        .where(
          and(
            eq(media.projectId, projectId),
            before === null ? undefined : lt(media.id, before),
            status === undefined ? undefined : eq(media.status, status),
          ),
        )
        .orderBy(desc(media.id))
        .limit(limit);
    },

    publicPage: ({ projectId, limit, before }) =>
      before === null ? firstPublicPage(projectId, limit) : nextPublicPage(projectId, before, limit),

    version: () => readVersion('media'),
  };
}
