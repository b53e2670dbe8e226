import { desc, eq, lt, sql } from 'drizzle-orm';
import { monotonicFactory } from 'ulid';
import type { AssetRepository, FormatProofRepository, RegionRepository } from '../delivery-repository.ts';
import { bumpVersion, type SqliteDatabase, versionReader } from './database.ts';
import { keepLatest } from './keep-latest.ts';
import { assets, formatProofs, regionNodes, regions } from './schema.ts';

const WRITE = { behavior: 'immediate' } as const;

/** {@link AssetRepository} over SQLite. */
export function createAssetRepository(db: SqliteDatabase): AssetRepository {
  const readVersion = versionReader(db, 'assets');
  // Within a millisecond it counts up, which costs less than new random bits for each.
  const ulid = monotonicFactory();
  const $ = sql.placeholder;
  // Built once: thousands may be recorded in a second.
  const insert = db
    .insert(assets)
    .values({
      ...{ id: $('id'), region: $('region'), path: $('path'), createdAtMs: $('createdAtMs') },
      ...{ bytes: $('bytes'), cacheStatus: $('cacheStatus'), requestSeq: $('requestSeq') },
    })
    .onConflictDoUpdate({
      target: [assets.region, assets.path],
      set: {
        bytes: sql`excluded.bytes`,
        cacheStatus: sql`excluded.cache_status`,
        requestSeq: sql`excluded.request_seq`,
      },
    })
    .prepare();
  return {
    async record(deliveries, keep) {
      if (deliveries.length === 0) return;
      db.transaction((tx) => {
        let seq =
          tx
            .select({ seq: sql<number | null>`max(${assets.requestSeq})` })
            .from(assets)
            .get()?.seq ?? 0;
        for (const delivery of deliveries) {
          seq += 1;
          const { region, path, bytes, cacheStatus, atMs } = delivery;
          const id = `ast_${ulid(atMs).toLowerCase()}`;
          insert.run({ id, region, path, bytes, cacheStatus, createdAtMs: atMs, requestSeq: seq });
        }
        for (const region of new Set(deliveries.map((delivery) => delivery.region))) {
          keepLatest(tx, { table: assets, group: eq(assets.region, region), column: assets.requestSeq, keep });
        }
        bumpVersion(tx, 'assets');
      }, WRITE);
    },

    async latest({ limit, region }) {
      return db
        .select()
        .from(assets)
        .where(region === null ? undefined : eq(assets.region, region))
        .orderBy(desc(assets.requestSeq))
        .limit(limit)
        .all();
    },

    async version() {
      return readVersion();
    },
  };
}

/** {@link RegionRepository} over SQLite. */
export function createRegionRepository(db: SqliteDatabase): RegionRepository {
  return {
    async list() {
      return db.select().from(regions).orderBy(regions.code).all();
    },

    async find(code) {
      return db.select().from(regions).where(eq(regions.code, code)).get() ?? null;
    },

    async put(region) {
      db.transaction((tx) => {
        tx.insert(regions).values(region).onConflictDoUpdate({ target: regions.code, set: region }).run();
        bumpVersion(tx, 'regions');
      }, WRITE);
    },

    async delete(code) {
      return db.transaction((tx) => {
        const { changes } = tx.delete(regions).where(eq(regions.code, code)).run();
        if (changes === 0) return false;
        tx.delete(assets).where(eq(assets.region, code)).run();
        bumpVersion(tx, 'assets');
        bumpVersion(tx, 'regions');
        return true;
      }, WRITE);
    },

    async heartbeat({ id, region, atMs, eventsThrough = null }) {
      db.insert(regionNodes)
        .values({ id, region, beat: 1, seenAtMs: atMs, eventsThrough })
        .onConflictDoUpdate({
          target: regionNodes.id,
          set: { region, beat: sql`${regionNodes.beat} + 1`, seenAtMs: atMs, eventsThrough },
        })
        .run();
    },

    async nodes() {
      return db.select().from(regionNodes).all();
    },

    async removeNode(id) {
      db.delete(regionNodes).where(eq(regionNodes.id, id)).run();
    },

    async removeNodesSeenBefore(beforeMs) {
      db.delete(regionNodes).where(lt(regionNodes.seenAtMs, beforeMs)).run();
    },
  };
}

/** {@link FormatProofRepository} over SQLite. */
export function createFormatProofRepository(db: SqliteDatabase): FormatProofRepository {
  return {
    async load(engineKey) {
      return db
        .select({ formatId: formatProofs.formatId, ok: formatProofs.ok, reason: formatProofs.reason })
        .from(formatProofs)
        .where(eq(formatProofs.engineKey, engineKey))
        .all();
    },

    async save(engineKey, proofs) {
      db.transaction((tx) => {
        tx.delete(formatProofs).run();
        for (const proof of proofs)
          tx.insert(formatProofs)
            .values({ engineKey, ...proof })
            .run();
      }, WRITE);
    },
  };
}
