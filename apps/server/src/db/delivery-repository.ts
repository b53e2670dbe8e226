import type { CacheStatus } from '@mds/contract';

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

/** A successful delivery, as the request log hands it over. */
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
   * Records deliveries in the order given; the latest of a path decides its `cacheStatus`, `bytes` and place.
   * Beyond `keep` records of a region the ones requested longest ago go.
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

/** A process that serves a region. `beat` counts its heartbeats: readers time it with their own clock. */
export interface RegionNodeRecord {
  id: string;
  region: string;
  beat: number;
  /** Wall-clock time of the latest heartbeat, to tell nodes that are gone for good. */
  seenAtMs: number;
  /** `seq` of the last event that it has acted upon; null where it has not said. */
  eventsThrough: number | null;
}

/** Regions and the nodes that serve them. */
export interface RegionRepository {
  list(): Promise<RegionRecord[]>;
  find(code: string): Promise<RegionRecord | null>;
  put(region: RegionRecord): Promise<void>;
  /** Forgets a region, its nodes and its asset records. False where it was not known. */
  delete(code: string): Promise<boolean>;
  /** Adds 1 to the node's beat, and the node where it is new; one that was in another region moves. */
  heartbeat(node: { id: string; region: string; atMs: number; eventsThrough?: number | null }): Promise<void>;
  nodes(): Promise<RegionNodeRecord[]>;
  /** Forgets a node that said goodbye, or that was not seen since `beforeMs`. */
  removeNode(id: string): Promise<void>;
  removeNodesSeenBefore(beforeMs: number): Promise<void>;
}

/** Whether each format decodes with a given engine, kept so that only a new engine costs start-up time. */
export interface FormatProofRepository {
  load(engineKey: string): Promise<{ formatId: string; ok: boolean; reason: string | null }[]>;
  /** Replaces what is known of any engine by what is known of this one. */
  save(engineKey: string, proofs: { formatId: string; ok: boolean; reason: string | null }[]): Promise<void>;
}
