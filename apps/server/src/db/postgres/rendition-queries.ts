import { and, eq, type SQL, sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { MediaRepository } from '../media-repository.ts';
import { contentOfOriginal } from '../original-content.ts';
import { storableValues } from './columns.ts';
import type { PostgresDatabase } from './database.ts';
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
export function createRenditionQueries(db: PostgresDatabase): RenditionQueries {
  // Asked on every miss of delivery: built once, and planned once by each connection.
  const ofPath = and(eq(mediaRenditions.mediaId, $('mediaId')), eq(mediaRenditions.name, $('name')), isReady);
  const currentOrThis = (called: string, which: SQL) => ({
    rendition: db
      .select()
      .from(mediaRenditions)
      .where(and(ofPath, eq(mediaRenditions.extension, $('extension')), which))
      .prepare(`${called}_rendition`),
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
      .prepare(`${called}_file`),
  });
  const ofCurrentRevision = currentOrThis('current', eq(mediaRenditions.current, true));
  const ofRevision = currentOrThis('revised', eq(mediaRenditions.revision, $('revision')));

  const ofMedia = db
    .select()
    .from(mediaRenditions)
    .where(eq(mediaRenditions.mediaId, $('mediaId')))
    .prepare('renditions_of_medium');

  return {
    async renditions(mediaId) {
      return ofMedia.execute(storableValues({ mediaId }));
    },

    async renditionsOf(mediaIds) {
      return db.select().from(mediaRenditions).where(isAnyOf(mediaRenditions.mediaId, mediaIds));
    },

    async findRendition({ mediaId, name, extension, revision }) {
      const { rendition } = revision === null ? ofCurrentRevision : ofRevision;
      return (await rendition.execute(storableValues({ mediaId, name, extension, revision })))[0] ?? null;
    },

    async findFile({ mediaId, name, revision, file }) {
      const prepared = revision === null ? ofCurrentRevision : ofRevision;
      const [found] = await prepared.file.execute(storableValues({ mediaId, name, revision, file }));
      return found ? { ...found.file, updatedAtMs: found.updatedAtMs } : null;
    },

    async files(mediaId) {
      return db.select().from(renditionFiles).where(eq(renditionFiles.mediaId, mediaId));
    },

    async findReadyObject(objectKey) {
      const [rendition] = await db
        .select()
        .from(mediaRenditions)
        .where(and(eq(mediaRenditions.objectKey, objectKey), isReady))
        .limit(1);
      if (!rendition) return null;
      const { mediaId, name, extension, revision } = rendition;
      const own = and(
        eq(renditionFiles.mediaId, mediaId),
        eq(renditionFiles.name, name),
        eq(renditionFiles.extension, extension),
        eq(renditionFiles.revision, revision),
      );
      return { rendition, files: await db.select().from(renditionFiles).where(own) };
    },

    async isReferenced(objectKey) {
      return (await referencedAmong(db, [objectKey])).size > 0;
    },
  };
}

/** Which of these objects a row needs; see {@link MediaRepository.isReferenced}. */
export async function referencedAmong(db: NodePgDatabase, objectKeys: readonly string[]): Promise<Set<string>> {
  const referenced = new Set<string>();
  const originals = new Map<string, string>();
  const made: string[] = [];
  for (const key of objectKeys) {
    const sha256 = contentOfOriginal(key);
    if (sha256 === null) made.push(key);
    else originals.set(sha256, key);
  }
  if (originals.size > 0) {
    const ofContent = isAnyOf(media.sha256, [...originals.keys()]);
    for (const { sha256 } of await db.selectDistinct({ sha256: media.sha256 }).from(media).where(ofContent)) {
      referenced.add(originals.get(sha256) ?? '');
    }
  }
  if (made.length === 0) return referenced;
  for (const table of [mediaRenditions, renditionFiles]) {
    const ofKey = isAnyOf(table.objectKey, made);
    for (const { key } of await db.selectDistinct({ key: table.objectKey }).from(table).where(ofKey)) {
      if (key !== null) referenced.add(key);
    }
  }
  return referenced;
}
