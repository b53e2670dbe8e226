import { and, eq, type SQL, sql } from 'drizzle-orm';
import type { Dialect, Executor } from './dialect.ts';
import type { MediaRepository } from './media-repository.ts';
import type { Tables } from './tables.ts';

export type RenditionQueries = Pick<
  MediaRepository,
  'renditions' | 'renditionsOf' | 'findRendition' | 'findFile' | 'files' | 'findReadyObject' | 'isReferenced'
>;

/** A value that a prepared query is given when it runs. */
const $ = sql.placeholder;

/** Joins a file to its rendition. */
export function renditionOfFile({ mediaRenditions, renditionFiles }: Tables): SQL | undefined {
  return and(
    eq(mediaRenditions.mediaId, renditionFiles.mediaId),
    eq(mediaRenditions.name, renditionFiles.name),
    eq(mediaRenditions.extension, renditionFiles.extension),
    eq(mediaRenditions.revision, renditionFiles.revision),
  );
}

/** Creates the queries for renditions, their files and the objects that hold them. */
export function createRenditionQueries(dialect: Dialect): RenditionQueries {
  const { tables, read, prepare, isAnyOf } = dialect;
  const { mediaRenditions, renditionFiles } = tables;
  const isReady = eq(mediaRenditions.state, 'ready');

  // Asked on every miss of delivery. To build the query anew takes ten times as long as to run it.
  const queriesOf = (revision: string, isRevision: SQL) => ({
    rendition: prepare(`${revision}_rendition`, (db) =>
      db
        .select()
        .from(mediaRenditions)
        .where(
          and(
            eq(mediaRenditions.mediaId, $('mediaId')),
            eq(mediaRenditions.name, $('name')),
            eq(mediaRenditions.extension, $('extension')),
            isReady,
            isRevision,
          ),
        ),
    ),
    file: prepare(`${revision}_file`, (db) =>
      db
        .select({ file: renditionFiles, updatedAtMs: mediaRenditions.updatedAtMs })
        .from(renditionFiles)
        .innerJoin(mediaRenditions, renditionOfFile(tables))
        .where(
          and(
            eq(renditionFiles.mediaId, $('mediaId')),
            eq(renditionFiles.name, $('name')),
            eq(renditionFiles.file, $('file')),
            isReady,
            isRevision,
          ),
        ),
    ),
  });
  const current = queriesOf('current', eq(mediaRenditions.current, true));
  const named = queriesOf('named', eq(mediaRenditions.revision, $('revision')));

  const ofMedia = prepare('renditions_of_media', (db) =>
    db
      .select()
      .from(mediaRenditions)
      .where(eq(mediaRenditions.mediaId, $('mediaId'))),
  );

  return {
    renditions: (mediaId) => ofMedia({ mediaId }),

    renditionsOf: async (mediaIds) =>
      read.select().from(mediaRenditions).where(isAnyOf(mediaRenditions.mediaId, mediaIds)),

    async findRendition({ revision, ...path }) {
      const found = revision === null ? current.rendition(path) : named.rendition({ ...path, revision });
      return (await found)[0] ?? null;
    },

    async findFile({ revision, ...path }) {
      const found = revision === null ? current.file(path) : named.file({ ...path, revision });
      const [row] = await found;
      return row ? { ...row.file, updatedAtMs: row.updatedAtMs } : null;
    },

    files: async (mediaId) => read.select().from(renditionFiles).where(eq(renditionFiles.mediaId, mediaId)),

    async findReadyObject(objectKey) {
      const ofKey = and(eq(mediaRenditions.objectKey, objectKey), isReady);
      const [rendition] = await read.select().from(mediaRenditions).where(ofKey).limit(1);
      if (!rendition) return null;
      const own = and(
        eq(renditionFiles.mediaId, rendition.mediaId),
        eq(renditionFiles.name, rendition.name),
        eq(renditionFiles.extension, rendition.extension),
        eq(renditionFiles.revision, rendition.revision),
      );
      return { rendition, files: await read.select().from(renditionFiles).where(own) };
    },

    isReferenced: async (objectKey) => (await referencedAmong(dialect, read, [objectKey])).size > 0,
  };
}

/** Returns the objects that a row refers to; see {@link MediaRepository.isReferenced}. */
export async function referencedAmong(
  { tables: { media, mediaRenditions, renditionFiles }, isAnyOf }: Dialect,
  db: Executor,
  objectKeys: readonly string[],
): Promise<Set<string>> {
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

/** The SHA-256 of the original that is kept under an object key; null if it is the key of something else. */
function contentOfOriginal(objectKey: string): string | null {
  return /^originals\/..\/([0-9a-f]{64})$/.exec(objectKey)?.[1] ?? null;
}
