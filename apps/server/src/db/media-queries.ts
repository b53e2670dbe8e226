import { and, desc, eq, lt, sql } from 'drizzle-orm';
import type { Dialect, Transaction } from './dialect.ts';
import type { MediaRecord, MediaRepository, PublicMediaRecord } from './media-repository.ts';
import { createVersionReader } from './versions.ts';

export type MediaQueries = Pick<
  MediaRepository,
  'find' | 'findBySha256' | 'findByIdempotencyKey' | 'countQueued' | 'page' | 'publicPage' | 'version'
>;

/** Finds existing media of a project that match an upload. Runs in a transaction if one is given. */
export interface KnownMedia {
  /** The oldest with these bytes. */
  bySha256(projectId: string, sha256: string, tx?: Transaction): Promise<MediaRecord | null>;
  byIdempotencyKey(projectId: string, key: string, tx?: Transaction): Promise<MediaRecord | null>;
}

const $ = sql.placeholder;

/** Creates {@link KnownMedia}, prepared because it is asked twice for each file that arrives. */
export function createKnownMedia({ tables: { media }, prepare, unindexed }: Dialect): KnownMedia {
  const ofProject = eq(media.projectId, $('projectId'));
  const bySha256 = prepare('media_of_content', (db) =>
    db
      .select()
      .from(media)
      .where(and(eq(media.sha256, $('sha256')), ofProject))
      // By the index of ids, SQLite would go through all media of the project.
      .orderBy(unindexed(media.id))
      .limit(1),
  );
  const byIdempotencyKey = prepare('media_of_key', (db) =>
    db
      .select()
      .from(media)
      .where(and(ofProject, eq(media.idempotencyKey, $('key')))),
  );
  return {
    bySha256: async (projectId, sha256, tx) => (await bySha256({ projectId, sha256 }, tx))[0] ?? null,
    byIdempotencyKey: async (projectId, key, tx) => (await byIdempotencyKey({ projectId, key }, tx))[0] ?? null,
  };
}

/** Creates the queries for media themselves, one by one and page by page. */
export function createMediaQueries(dialect: Dialect, known: KnownMedia): MediaQueries {
  const { read, prepare, prepareText } = dialect;
  const { media } = dialect.tables;
  const readVersion = createVersionReader(dialect);
  const find = prepare('media_by_id', (db) =>
    db
      .select()
      .from(media)
      .where(eq(media.id, $('id'))),
  );
  // Without a mapper, a page of 100 costs a tenth of the time of the query builder.
  const columns = `id, created_at_ms AS "createdAtMs", content_type AS "contentType", bytes,
    CAST(width AS bigint) AS width, CAST(height AS bigint) AS height, status`;
  const firstPublicPage = prepareText<PublicMediaRecord>(
    'first_public_page',
    `SELECT ${columns} FROM media WHERE project_id = $1 ORDER BY id DESC LIMIT $2`,
  );
  const nextPublicPage = prepareText<PublicMediaRecord>(
    'next_public_page',
    `SELECT ${columns} FROM media WHERE project_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`,
  );

  return {
    find: async (id) => (await find({ id }))[0] ?? null,

    findBySha256: (projectId, sha256) => known.bySha256(projectId, sha256),

    findByIdempotencyKey: (projectId, key) => known.byIdempotencyKey(projectId, key),

    countQueued: async (projectId) =>
      read.$count(media, and(eq(media.projectId, projectId), eq(media.status, 'queued'))),

    async page({ projectId, limit, before, status }) {
      const asked = and(
        eq(media.projectId, projectId),
        before === null ? undefined : lt(media.id, before),
        status === undefined ? undefined : eq(media.status, status),
      );
      return read.select().from(media).where(asked).orderBy(desc(media.id)).limit(limit);
    },

    publicPage: ({ projectId, limit, before }) =>
      before === null ? firstPublicPage(projectId, limit) : nextPublicPage(projectId, before, limit),

    version: () => readVersion('media'),
  };
}
