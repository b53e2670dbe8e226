import { and, desc, eq, lt, sql } from 'drizzle-orm';
import { ulid } from 'ulid';
import type { AssetRepository, FormatProofRepository, RegionRepository } from '../delivery-repository.ts';
import { bumpVersion, type SqliteDatabase, versionReader } from './database.ts';
import { assets, formatProofs, regionNodes, regions } from './schema.ts';

const WRITE = { behavior: 'immediate' } as const;

/** {@link AssetRepository} over SQLite. */
export function createAssetRepository(db: SqliteDatabase): AssetRepository {
  const readVersion = versionReader(db, 'assets');
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
          const latest = { bytes: delivery.bytes, cacheStatus: delivery.cacheStatus, requestSeq: seq };
          tx.insert(assets)
            .values({
              id: `ast_${ulid(delivery.atMs).toLowerCase()}`,
              region: delivery.region,
              path: delivery.path,
              createdAtMs: delivery.atMs,
              ...latest,
            })
            .onConflictDoUpdate({ target: [assets.region, assets.path], set: latest })
            .run();
        }
        for (const region of new Set(deliveries.map((delivery) => delivery.region))) {
          const oldestKept = tx
            .select({ seq: assets.requestSeq })
            .from(assets)
            .where(eq(assets.region, region))
            .orderBy(desc(assets.requestSeq))
            .limit(1)
            .offset(keep - 1)
            .get();
          if (oldestKept) {
            tx.delete(assets)
              .where(and(eq(assets.region, region), lt(assets.requestSeq, oldestKept.seq)))
              .run();
          }
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
      db.insert(regions).values(region).onConflictDoUpdate({ target: regions.code, set: region }).run();
    },

    async heartbeat({ id, region, atMs }) {
      db.insert(regionNodes)
        .values({ id, region, beat: 1, seenAtMs: atMs })
        .onConflictDoUpdate({
          target: regionNodes.id,
          set: { region, beat: sql`${regionNodes.beat} + 1`, seenAtMs: atMs },
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
