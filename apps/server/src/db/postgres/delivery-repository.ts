import { desc, eq, lt, max, sql } from 'drizzle-orm';
import { monotonicFactory } from 'ulid';
import type {
  AssetRepository,
  DeliveredAsset,
  FormatProofRepository,
  RegionRepository,
} from '../delivery-repository.ts';
import { lockNames } from './advisory-locks.ts';
import { storableText } from './columns.ts';
import { type PostgresDatabase, versionReader } from './database.ts';
import { inChunks } from './in-chunks.ts';
import { keepLatest } from './keep-latest.ts';
import { assets, formatProofs, regionNodes, regions } from './schema.ts';
import type { Transactions } from './transaction.ts';

type Parts = { transactions: Transactions };

/** {@link AssetRepository} over PostgreSQL. */
export function createAssetRepository(db: PostgresDatabase, { transactions }: Parts): AssetRepository {
  const readVersion = versionReader(db);
  // Within a millisecond it counts up, which costs less than new random bits for each.
  const ulid = monotonicFactory();
  return {
    async record(deliveries, keep) {
      if (deliveries.length === 0) return;
      const latest = latestOfEach(deliveries);
      await transactions.write(async (tx) => {
        // The places that requests get in the order are counted on from the last one.
        await lockNames(tx.db, ['assets']);
        const [last] = await tx.db.select({ seq: max(assets.requestSeq) }).from(assets);
        const before = last?.seq ?? 0;
        const rows = latest.map(({ atMs, ...asset }, n) => ({
          ...{ ...asset, id: `ast_${ulid(atMs).toLowerCase()}` },
          ...{ createdAtMs: atMs, requestSeq: before + 1 + n },
        }));
        const set = {
          bytes: sql`excluded.bytes`,
          cacheStatus: sql`excluded.cache_status`,
          requestSeq: sql`excluded.request_seq`,
        };
        for (const chunk of inChunks(rows)) {
          await tx.db
            .insert(assets)
            .values(chunk)
            .onConflictDoUpdate({ target: [assets.region, assets.path], set });
        }
        for (const region of new Set(rows.map((row) => row.region))) {
          await keepLatest(tx.db, {
            ...{ table: assets, group: eq(assets.region, region), column: assets.requestSeq, keep },
          });
        }
        tx.bump('assets');
      });
    },

    async latest({ limit, region }) {
      return db
        .select()
        .from(assets)
        .where(region === null ? undefined : eq(assets.region, region))
        .orderBy(desc(assets.requestSeq))
        .limit(limit);
    },

    version: () => readVersion('assets'),
  };
}

/** One row for each path in a region, in the order of their last requests; the first one dates it. No statement may write a row twice. */
function latestOfEach(deliveries: readonly DeliveredAsset[]): DeliveredAsset[] {
  const latest = new Map<string, DeliveredAsset>();
  for (const delivery of deliveries) {
    const path = storableText(delivery.path);
    const key = `${delivery.region} ${path}`;
    const atMs = latest.get(key)?.atMs ?? delivery.atMs;
    latest.delete(key);
    latest.set(key, { ...delivery, path, atMs });
  }
  return [...latest.values()];
}

/** {@link RegionRepository} over PostgreSQL. */
export function createRegionRepository(
  db: PostgresDatabase,
  { transactions, writingDb }: Parts & { writingDb: PostgresDatabase },
): RegionRepository {
  return {
    async list() {
      return db.select().from(regions).orderBy(regions.code);
    },

    async find(code) {
      return (await db.select().from(regions).where(eq(regions.code, code)))[0] ?? null;
    },

    put: (region) =>
      transactions.write(async (tx) => {
        await tx.db.insert(regions).values(region).onConflictDoUpdate({ target: regions.code, set: region });
        tx.bump('regions');
      }),

    delete: (code) =>
      transactions.write(async (tx) => {
        const { rowCount } = await tx.db.delete(regions).where(eq(regions.code, code));
        if (rowCount === 0) return false;
        await tx.db.delete(assets).where(eq(assets.region, code));
        tx.bump('assets');
        tx.bump('regions');
        return true;
      }),

    async heartbeat({ id, region, atMs, eventsThrough = null }) {
      await writingDb
        .insert(regionNodes)
        .values({ id, region, beat: 1, seenAtMs: atMs, eventsThrough })
        .onConflictDoUpdate({
          target: regionNodes.id,
          set: { region, beat: sql`${regionNodes.beat} + 1`, seenAtMs: atMs, eventsThrough },
        });
    },

    async nodes() {
      return db.select().from(regionNodes);
    },

    async removeNode(id) {
      await writingDb.delete(regionNodes).where(eq(regionNodes.id, id));
    },

    async removeNodesSeenBefore(beforeMs) {
      await writingDb.delete(regionNodes).where(lt(regionNodes.seenAtMs, beforeMs));
    },
  };
}

/** {@link FormatProofRepository} over PostgreSQL. */
export function createFormatProofRepository(db: PostgresDatabase, { transactions }: Parts): FormatProofRepository {
  return {
    async load(engineKey) {
      return db
        .select({ formatId: formatProofs.formatId, ok: formatProofs.ok, reason: formatProofs.reason })
        .from(formatProofs)
        .where(eq(formatProofs.engineKey, engineKey));
    },

    save: (engineKey, proofs) =>
      transactions.write(async (tx) => {
        // Nodes that start together save the same.
        await lockNames(tx.db, ['format proofs']);
        await tx.db.delete(formatProofs);
        const rows = proofs.map((proof) => ({ engineKey, ...proof }));
        if (rows.length > 0) await tx.db.insert(formatProofs).values(rows);
      }),
  };
}
