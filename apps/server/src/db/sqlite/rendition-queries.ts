import { and, eq, type SQL, sql } from 'drizzle-orm';
import type { MediaRepository } from '../media-repository.ts';
import { contentOfOriginal } from '../original-content.ts';
import type { SqliteDatabase } from './database.ts';
import { isAnyOf } from './is-any-of.ts';
import { media, mediaRenditions, renditionFiles } from './schema.ts';

export type RenditionQueries = Pick<
  MediaRepository,
  'renditions' | 'renditionsOf' | 'findRendition' | 'findFile' | 'files' | 'findReadyObject' | 'isReferenced'
>;

/** Joins a file to the rendition that it is of. */
export const renditionOfFile = and(
  eq(mediaRenditions.mediaId, renditionFiles.mediaId),
  eq(mediaRenditions.name, renditionFiles.name),
  eq(mediaRenditions.extension, renditionFiles.extension),
  eq(mediaRenditions.revision, renditionFiles.revision),
);

const isReady = eq(mediaRenditions.state, 'ready');
/** A value that a prepared query is given when it runs. */
const $ = sql.placeholder;

/** What is asked of renditions, their files and the objects that hold them. */
export function createRenditionQueries(db: SqliteDatabase): RenditionQueries {
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

  const ofMedia = db
    .select()
    .from(mediaRenditions)
    .where(eq(mediaRenditions.mediaId, $('mediaId')))
    .prepare();

  return {
    async renditions(mediaId) {
      return ofMedia.all({ mediaId });
    },

    async renditionsOf(mediaIds) {
      return db.select().from(mediaRenditions).where(isAnyOf(mediaRenditions.mediaId, mediaIds)).all();
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
  };
}

/** Whether a row needs the object; see {@link MediaRepository.isReferenced}. */
export function isReferenced(db: Pick<SqliteDatabase, 'select'>, objectKey: string): boolean {
  const sha256 = contentOfOriginal(objectKey);
  if (sha256 !== null) {
    return db.select({ id: media.id }).from(media).where(eq(media.sha256, sha256)).limit(1).get() !== undefined;
  }
  const where = eq(mediaRenditions.objectKey, objectKey);
  if (db.select({ id: mediaRenditions.mediaId }).from(mediaRenditions).where(where).limit(1).get()) return true;
  const ofFile = eq(renditionFiles.objectKey, objectKey);
  return db.select({ id: renditionFiles.mediaId }).from(renditionFiles).where(ofFile).limit(1).get() !== undefined;
}
