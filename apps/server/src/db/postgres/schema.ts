import { sql } from 'drizzle-orm';
import { boolean, doublePrecision, foreignKey, index, integer, pgTable, primaryKey, unique } from 'drizzle-orm/pg-core';
import type { KeptEventType } from '../event-repository.ts';
import type { AttemptReport } from '../job-queue.ts';
import { bytea, int8, json, text } from './columns.ts';

/** The tables of SQLite, of the same names and meanings. Instants are milliseconds since the epoch; hashes are lower-case hex. */
export const projects = pgTable('projects', {
  id: text('id').primaryKey(),
  name: text('name').notNull(),
  createdAtMs: int8('created_at_ms').notNull(),
});

export const projectHosts = pgTable('project_hosts', {
  host: text('host').primaryKey(),
  projectId: text('project_id')
    .notNull()
    .references(() => projects.id, { onDelete: 'cascade' }),
});

export const tokens = pgTable('tokens', {
  sha256: text('sha256').primaryKey(),
  name: text('name').notNull(),
  projectId: text('project_id')
    .notNull()
    .references(() => projects.id, { onDelete: 'cascade' }),
  scope: text<'ingest' | 'operate'>('scope').notNull(),
  createdAtMs: int8('created_at_ms').notNull(),
});

export const media = pgTable(
  'media',
  {
    id: text('id').primaryKey(),
    projectId: text('project_id')
      .notNull()
      .references(() => projects.id),
    createdAtMs: int8('created_at_ms').notNull(),
    contentType: text('content_type').notNull(),
    bytes: int8('bytes').notNull(),
    width: integer('width').notNull(),
    height: integer('height').notNull(),
    status: text<'queued' | 'processing' | 'ready' | 'failed'>('status').notNull(),
    filename: text('filename'),
    sha256: text('sha256').notNull(),
    kind: text<'image' | 'video' | 'audio'>('kind').notNull(),
    format: text('format').notNull(),
    durationMs: int8('duration_ms'),
    codecs: json<string[]>('codecs').notNull(),
    thumbhash: text('thumbhash'),
    warnings: json<string[]>('warnings').notNull(),
    identified: json<unknown>('identified').notNull(),
    failure: json<{ code: string; message: string; retryable: boolean }>('failure'),
    attempts: integer('attempts').notNull().default(0),
    idempotencyKey: text('idempotency_key'),
  },
  (table) => [
    index('media_by_project').on(table.projectId, table.id),
    index('media_by_project_status').on(table.projectId, table.status, table.id),
    index('media_by_content').on(table.sha256, table.projectId),
    unique('media_idempotency').on(table.projectId, table.idempotencyKey),
  ],
);

export const mediaRenditions = pgTable(
  'media_renditions',
  {
    mediaId: text('media_id')
      .notNull()
      .references(() => media.id, { onDelete: 'cascade' }),
    name: text('name').notNull(),
    extension: text('extension').notNull(),
    contentType: text('content_type').notNull(),
    revision: text('revision').notNull(),
    current: boolean('current').notNull(),
    state: text<'pending' | 'ready' | 'skipped' | 'failed'>('state').notNull(),
    reason: text('reason'),
    /** Of a rendition of several files, key and hash are those of its first file, and `bytes` those of all. */
    objectKey: text('object_key'),
    sha256: text('sha256'),
    bytes: int8('bytes'),
    files: integer('files'),
    width: integer('width'),
    height: integer('height'),
    updatedAtMs: int8('updated_at_ms').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.mediaId, table.name, table.extension, table.revision] }),
    index('renditions_by_object').on(table.objectKey),
    // Of the few that have piece digests.
    index('renditions_by_large_content').on(table.sha256).where(sql`bytes > 1048576`),
  ],
);

/** Files of renditions that consist of several. There before their objects are, and delivered once the rendition is `ready`. */
export const renditionFiles = pgTable(
  'rendition_files',
  {
    mediaId: text('media_id').notNull(),
    name: text('name').notNull(),
    extension: text('extension').notNull(),
    revision: text('revision').notNull(),
    /** Path below the rendition's folder. */
    file: text('file').notNull(),
    contentType: text('content_type').notNull(),
    objectKey: text('object_key').notNull(),
    sha256: text('sha256').notNull(),
    bytes: int8('bytes').notNull(),
  },
  (table) => [
    // A path names no extension of the rendition: two with equal names would share a folder.
    primaryKey({ columns: [table.mediaId, table.name, table.revision, table.file] }),
    foreignKey({
      name: 'rendition_files_of_rendition',
      columns: [table.mediaId, table.name, table.extension, table.revision],
      foreignColumns: [
        mediaRenditions.mediaId,
        mediaRenditions.name,
        mediaRenditions.extension,
        mediaRenditions.revision,
      ],
    }).onDelete('cascade'),
    index('rendition_files_by_object').on(table.objectKey),
    index('rendition_files_by_large_content').on(table.sha256).where(sql`bytes > 1048576`),
  ],
);

/** What this database is the truth of; one row. A storage elsewhere is marked with its id, so that neither is taken for another's. */
export const deployments = pgTable('deployments', {
  id: text('id').primaryKey(),
  createdAtMs: int8('created_at_ms').notNull(),
});

/** SHA-256 of each piece of objects that are larger than one, 32 bytes after 32 bytes. */
export const pieceDigests = pgTable('piece_digests', {
  sha256: text('sha256').primaryKey(),
  digests: bytea('digests').notNull(),
});

/** Contents of which a media object was deleted, until its objects were looked for in the store once it was certain that nobody puts any more. */
export const contentRemovals = pgTable('content_removals', {
  sha256: text('sha256').primaryKey(),
  sinceMs: int8('since_ms').notNull(),
});

export const jobs = pgTable(
  'jobs',
  {
    /** Counts up in the order of acceptance, which no clock gives: of equal priority, the oldest goes first. */
    id: int8('id').primaryKey().generatedByDefaultAsIdentity(),
    mediaId: text('media_id')
      .notNull()
      .unique()
      .references(() => media.id, { onDelete: 'cascade' }),
    /** Smaller is more urgent. */
    priority: integer('priority').notNull(),
    dueAtMs: int8('due_at_ms').notNull(),
    attempts: integer('attempts').notNull().default(0),
    lostLeases: integer('lost_leases').notNull().default(0),
    leaseToken: text('lease_token'),
    leaseWorker: text('lease_worker'),
    leaseBeat: int8('lease_beat').notNull().default(0),
    /** For how long the beat is known to have stood still, in milliseconds. */
    leaseSilentMs: int8('lease_silent_ms').notNull().default(0),
    lastReason: text('last_reason'),
    /** Share of the work that is done, 0 to 1; null while nobody works on it. */
    progress: doublePrecision('progress'),
  },
  (table) => [index('jobs_due').on(table.leaseToken, table.priority, table.id)],
);

/** Runs of jobs, for those who ask why a media object is as it is: the latest few of each media object. */
export const processingAttempts = pgTable(
  'processing_attempts',
  {
    id: int8('id').primaryKey().generatedByDefaultAsIdentity(),
    mediaId: text('media_id')
      .notNull()
      .references(() => media.id, { onDelete: 'cascade' }),
    leaseToken: text('lease_token').notNull().unique(),
    attempt: integer('attempt').notNull(),
    worker: text('worker').notNull(),
    startedAtMs: int8('started_at_ms').notNull(),
    endedAtMs: int8('ended_at_ms'),
    outcome: text<'running' | 'ready' | 'failed' | 'retried' | 'released' | 'lost'>('outcome').notNull(),
    failure: json<{ code: string; message: string; retryable: boolean }>('failure'),
    report: json<AttemptReport>('report'),
  },
  (table) => [index('attempts_of_media').on(table.mediaId, table.id)],
);

/** What happened, in order: for listeners, the latest of it. */
export const events = pgTable('events', {
  seq: int8('seq').primaryKey().generatedByDefaultAsIdentity(),
  /** Null: concerns every project. */
  projectId: text('project_id'),
  type: text<KeptEventType>('type').notNull(),
  data: json<Record<string, unknown>>('data').notNull(),
  createdAtMs: int8('created_at_ms').notNull(),
});

/** Files on their way in from URLs, and the latest of those that are over. */
export const fetches = pgTable(
  'fetches',
  {
    id: text('id').primaryKey(),
    projectId: text('project_id')
      .notNull()
      .references(() => projects.id),
    createdAtMs: int8('created_at_ms').notNull(),
    updatedAtMs: int8('updated_at_ms').notNull(),
    /** Whole while it is needed; without its query, which may hold a secret, once the fetch is over. */
    sourceUrl: text('source_url').notNull(),
    /** Of the request, by which a repetition of it is known. */
    requestSha256: text('request_sha256').notNull(),
    idempotencyKey: text('idempotency_key'),
    filename: text('filename'),
    duplicate: text<'existing' | 'allow'>('duplicate').notNull(),
    status: text<'queued' | 'fetching' | 'done' | 'failed' | 'canceled'>('status').notNull(),
    /** Bytes that are synced to disk. */
    receivedBytes: int8('received_bytes').notNull().default(0),
    totalBytes: int8('total_bytes'),
    /** Strong validator of what was received: what `If-Range` asks for. */
    validator: text('validator'),
    attempts: integer('attempts').notNull().default(0),
    /** Attempts since the last one that brought the fetch further. */
    fruitlessAttempts: integer('fruitless_attempts').notNull().default(0),
    /** Time that all attempts took, by monotonic clocks. */
    spentMs: int8('spent_ms').notNull().default(0),
    dueAtMs: int8('due_at_ms').notNull(),
    /** All bytes are there and are being accepted: nothing can be canceled any more. */
    accepting: boolean('accepting').notNull().default(false),
    mediaId: text('media_id'),
    mediaCreated: boolean('media_created'),
    failure: json<{ code: string; message: string; retryable: boolean }>('failure'),
    leaseToken: text('lease_token'),
    leaseBeat: int8('lease_beat').notNull().default(0),
    /** For how long the beat is known to have stood still, in milliseconds. */
    leaseSilentMs: int8('lease_silent_ms').notNull().default(0),
  },
  (table) => [
    index('fetches_by_project').on(table.projectId, table.id),
    index('fetches_by_project_status').on(table.projectId, table.status, table.id),
    index('fetches_due').on(table.status, table.dueAtMs, table.id),
    unique('fetches_idempotency').on(table.projectId, table.idempotencyKey),
  ],
);

export const workers = pgTable('workers', {
  id: text('id').primaryKey(),
  pid: integer('pid').notNull(),
  concurrency: integer('concurrency').notNull(),
  beat: int8('beat').notNull(),
  /** Null, as the two below: its process is of a version that did not say. */
  host: text('host'),
  region: text('region'),
  /** An instant. */
  sinceMs: int8('since_ms'),
});

export const regions = pgTable('regions', {
  code: text('code').primaryKey(),
  name: text('name').notNull(),
  zone: text('zone').notNull(),
  country: text('country').notNull(),
  maintenance: boolean('maintenance').notNull().default(false),
});

export const regionNodes = pgTable('region_nodes', {
  id: text('id').primaryKey(),
  region: text('region')
    .notNull()
    .references(() => regions.code, { onDelete: 'cascade' }),
  beat: int8('beat').notNull(),
  seenAtMs: int8('seen_at_ms').notNull(),
  /** The last event that the node has acted upon; null while it has not said. */
  eventsThrough: int8('events_through'),
});

export const assets = pgTable(
  'assets',
  {
    id: text('id').primaryKey(),
    region: text('region').notNull(),
    path: text('path').notNull(),
    createdAtMs: int8('created_at_ms').notNull(),
    bytes: int8('bytes').notNull(),
    cacheStatus: text<'HIT' | 'MISS'>('cache_status').notNull(),
    /** Grows with every request: the order of the list, whatever clocks do. */
    requestSeq: int8('request_seq').notNull(),
  },
  (table) => [
    unique('assets_by_path').on(table.region, table.path),
    index('assets_latest_in_region').on(table.region, table.requestSeq),
    index('assets_latest').on(table.requestSeq),
  ],
);

export const formatProofs = pgTable(
  'format_proofs',
  {
    engineKey: text('engine_key').notNull(),
    formatId: text('format_id').notNull(),
    ok: boolean('ok').notNull(),
    reason: text('reason'),
  },
  (table) => [primaryKey({ columns: [table.engineKey, table.formatId] })],
);

/** Resumable uploads: what is known of them but their bytes, and the lock of each. Rows of those that are over stay for a while. */
export const uploads = pgTable(
  'uploads',
  {
    id: text('id').primaryKey(),
    projectId: text('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    /** No reference: an upload outlives the token that began it. */
    tokenSha256: text('token_sha256').notNull(),
    createdAtMs: int8('created_at_ms').notNull(),
    expiresAtMs: int8('expires_at_ms').notNull(),
    metadata: json<Record<string, string | null>>('metadata'),
    filename: text('filename'),
    duplicate: text<'existing' | 'allow'>('duplicate').notNull(),
    idempotencyKey: text('idempotency_key'),
    expectedSha256: text('expected_sha256'),
    length: int8('length'),
    state: text<'open' | 'accepted' | 'rejected' | 'terminated' | 'expired'>('state').notNull(),
    /** No reference: it tells what became of the upload, also once the media object is deleted. */
    mediaId: text('media_id'),
    mediaCreated: boolean('media_created'),
    failure: json<{ code: string; message: string }>('failure'),
    lockHolder: text('lock_holder'),
    lockBeat: int8('lock_beat').notNull().default(0),
    lockReleaseRequested: boolean('lock_release_requested').notNull().default(false),
  },
  (table) => [
    index('uploads_by_token').on(table.tokenSha256, table.state),
    index('uploads_by_state').on(table.state, table.id),
    index('uploads_by_expiry').on(table.state, table.expiresAtMs),
    index('uploads_by_lock').on(table.lockHolder),
  ],
);

/** Counters that change with every write a reader could see: what hot answers are checked against. */
export const versions = pgTable('versions', {
  name: text('name').primaryKey(),
  value: int8('value').notNull(),
});
