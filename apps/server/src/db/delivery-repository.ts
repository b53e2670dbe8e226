import type { CacheStatus } from '@mds/contract';
import { desc, eq, getTableColumns, lt, max, sql } from 'drizzle-orm';
import { monotonicFactory } from 'ulid';
import { changedRows, type Dialect } from './dialect.ts';
import { keepLatest } from './keep-latest.ts';
import { storableText } from './storable.ts';
import { createVersionReader } from './versions.ts';

/** One record for a path in a region. */
export interface AssetRecord {
  id: string;
  region: string;
  path: string;
  /** First request in that region, milliseconds since the epoch. */
  createdAtMs: number;
  /** Size of the whole representation. */
  bytes: number;
  cacheStatus: CacheStatus;
}

/** A successful delivery, from the request log. */
export interface DeliveredAsset {
  region: string;
  path: string;
  bytes: number;
  cacheStatus: CacheStatus;
  atMs: number;
}

/** Recently requested assets. */
export interface AssetRepository {
  /**
   * Records deliveries in the given order. The latest of a path decides its `cacheStatus`, `bytes` and place. Beyond `keep` records of a
   * region, those requested longest ago are deleted.
   */
  record(deliveries: DeliveredAsset[], keep: number): Promise<void>;
  /** Latest requested first. `region` null: all regions. */
  latest(query: { limit: number; region: string | null }): Promise<AssetRecord[]>;
  version(): Promise<number>;
}

/** A region of the catalogue that has been served at least once. */
export interface RegionRecord {
  code: string;
  name: string;
  zone: string;
  country: string;
  maintenance: boolean;
}

/** A process that serves a region. `beat` counts its heartbeats, which readers time with their own clock. */
export interface RegionNodeRecord {
  id: string;
  region: string;
  beat: number;
  /** Wall-clock time of the latest heartbeat, to find nodes that are gone for good. */
  seenAtMs: number;
  /** `seq` of the last event that it has acted upon; null if it has not reported one. */
  eventsThrough: number | null;
}

/** Regions and the nodes that serve them. */
export interface RegionRepository {
  list(): Promise<RegionRecord[]>;
  find(code: string): Promise<RegionRecord | null>;
  put(region: RegionRecord): Promise<void>;
  /** Deletes a region, its nodes and its asset records. False: it did not exist. */
  delete(code: string): Promise<boolean>;
  /** Adds 1 to the node's beat. Adds the node if it is new, and moves it if it was in another region. */
  heartbeat(node: { id: string; region: string; atMs: number; eventsThrough?: number | null }): Promise<void>;
  nodes(): Promise<RegionNodeRecord[]>;
  /** Deletes a node that signed off. */
  removeNode(id: string): Promise<void>;
  /** Deletes nodes without a heartbeat since `beforeMs`. */
  removeNodesSeenBefore(beforeMs: number): Promise<void>;
}

/** Whether each format decodes with a given engine. Kept, so that only a new engine costs time at startup. */
export interface FormatProofRepository {
  load(engineKey: string): Promise<{ formatId: string; ok: boolean; reason: string | null }[]>;
  /** Replaces the proofs of every engine by those of this one. */
  save(engineKey: string, proofs: { formatId: string; ok: boolean; reason: string | null }[]): Promise<void>;
}

/** Creates the {@link AssetRepository}. */
export function createAssetRepository(dialect: Dialect): AssetRepository {
  const { tables, read, write, insertAll } = dialect;
  const { assets } = tables;
  const readVersion = createVersionReader(dialect);
  // Within a millisecond it counts up, which costs less than new random bits for each.
  const ulid = monotonicFactory();
  const written = {
    bytes: sql`excluded.bytes`,
    cacheStatus: sql`excluded.cache_status`,
    requestSeq: sql`excluded.request_seq`,
  };
  return {
    async record(deliveries, keep) {
      if (deliveries.length === 0) return;
      const latest = latestOfEach(deliveries);
      await write(async ({ db, lock, bump }) => {
        // Requests are counted on from the last one.
        await lock('assets');
        const [last] = await db.select({ seq: max(assets.requestSeq) }).from(assets);
        const before = last?.seq ?? 0;
        const rows = latest.map(({ region, path, bytes, cacheStatus, atMs: createdAtMs }, n) => {
          const id = `ast_${ulid(createdAtMs).toLowerCase()}`;
          return { id, region, path, createdAtMs, bytes, cacheStatus, requestSeq: before + 1 + n };
        });
        const target = [assets.region, assets.path];
        await insertAll('put_assets', rows, (some) =>
          db.insert(assets).values(some).onConflictDoUpdate({ target, set: written }),
        );
        for (const region of new Set(rows.map((row) => row.region))) {
          await keepLatest(db, { table: assets, group: eq(assets.region, region), column: assets.requestSeq, keep });
        }
        bump('assets');
      });
    },

    async latest({ limit, region }) {
      const ofRegion = region === null ? undefined : eq(assets.region, region);
      return read.select().from(assets).where(ofRegion).orderBy(desc(assets.requestSeq)).limit(limit);
    },

    version: () => readVersion('assets'),
  };
}

/** One row for each path in a region, in the order of their last requests. The first one dates it. No statement may write a row twice. */
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

/** Creates the {@link RegionRepository}. */
export function createRegionRepository({ tables, read, change, write }: Dialect): RegionRepository {
  const { assets, regionNodes, regions } = tables;
  return {
    list: async () => read.select().from(regions).orderBy(regions.code),

    async find(code) {
      const [region] = await read.select().from(regions).where(eq(regions.code, code));
      return region ?? null;
    },

    put: (region) =>
      write(async ({ db, bump }) => {
        await db.insert(regions).values(region).onConflictDoUpdate({ target: regions.code, set: region });
        bump('regions');
      }),

    delete: (code) =>
      write(async ({ db, bump }) => {
        if (changedRows(await db.delete(regions).where(eq(regions.code, code))) === 0) return false;
        await db.delete(assets).where(eq(assets.region, code));
        bump('assets');
        bump('regions');
        return true;
      }),

    async heartbeat({ id, region, atMs: seenAtMs, eventsThrough = null }) {
      const node = { region, seenAtMs, eventsThrough };
      const set = { ...node, beat: sql`${regionNodes.beat} + 1` };
      const first = { ...node, id, beat: 1 };
      await change((db) => db.insert(regionNodes).values(first).onConflictDoUpdate({ target: regionNodes.id, set }));
    },

    nodes: async () => read.select().from(regionNodes),

    async removeNode(id) {
      await change((db) => db.delete(regionNodes).where(eq(regionNodes.id, id)));
    },

    async removeNodesSeenBefore(beforeMs) {
      await change((db) => db.delete(regionNodes).where(lt(regionNodes.seenAtMs, beforeMs)));
    },
  };
}

/** Creates the {@link FormatProofRepository}. */
export function createFormatProofRepository({ tables, read, write }: Dialect): FormatProofRepository {
  const { formatProofs } = tables;
  const { engineKey: ofEngine, ...proof } = getTableColumns(formatProofs);
  return {
    load: async (engineKey) => read.select(proof).from(formatProofs).where(eq(ofEngine, engineKey)),

    save: (engineKey, proofs) =>
      write(async ({ db, lock }) => {
        // Nodes that start together save the same.
        await lock('format proofs');
        await db.delete(formatProofs);
        const rows = proofs.map((proof) => ({ engineKey, ...proof }));
        if (rows.length > 0) await db.insert(formatProofs).values(rows);
      }),
  };
}
