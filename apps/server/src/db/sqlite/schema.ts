import { sql } from 'drizzle-orm';
import { blob, foreignKey, index, integer, primaryKey, real, sqliteTable, text, unique } from 'drizzle-orm/sqlite-core';
import type { KeptEventType } from '../event-repository.ts';
import type { AttemptReport } from '../job-queue.ts';

/** Instants are milliseconds since the epoch; hashes are lower-case hex; lists and documents are JSON text. */
export const projects = sqliteTable('projects', {
  id: text('id').primaryKey(),
  name: text('name').notNull(),
  createdAtMs: integer('created_at_ms').notNull(),
});

export const projectHosts = sqliteTable('project_hosts', {
  host: text('host').primaryKey(),
  projectId: text('project_id')
    .notNull()
    .references(() => projects.id, { onDelete: 'cascade' }),
});

export const tokens = sqliteTable('tokens', {
  sha256: text('sha256').primaryKey(),
  name: text('name').notNull(),
  projectId: text('project_id')
    .notNull()
    .references(() => projects.id, { onDelete: 'cascade' }),
  scope: text('scope', { enum: ['ingest', 'operate'] }).notNull(),
  createdAtMs: integer('created_at_ms').notNull(),
});

export const media = sqliteTable(
  'media',
  {
    id: text('id').primaryKey(),
    projectId: text('project_id')
      .notNull()
      .references(() => projects.id),
    createdAtMs: integer('created_at_ms').notNull(),
    contentType: text('content_type').notNull(),
    bytes: integer('bytes').notNull(),
    width: integer('width').notNull(),
    height: integer('height').notNull(),
    status: text('status', { enum: ['queued', 'processing', 'ready', 'failed'] }).notNull(),
    filename: text('filename'),
    sha256: text('sha256').notNull(),
    kind: text('kind', { enum: ['image', 'video', 'audio'] }).notNull(),
    format: text('format').notNull(),
    durationMs: integer('duration_ms'),
    codecs: text('codecs', { mode: 'json' }).$type<string[]>().notNull(),
    thumbhash: text('thumbhash'),
    warnings: text('warnings', { mode: 'json' }).$type<string[]>().notNull(),
    identified: text('identified', { mode: 'json' }).notNull(),
    failure: text('failure', { mode: 'json' }).$type<{ code: string; message: string; retryable: boolean }>(),
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

export const mediaRenditions = sqliteTable(
  'media_renditions',
  {
    mediaId: text('media_id')
      .notNull()
      .references(() => media.id, { onDelete: 'cascade' }),
    name: text('name').notNull(),
    extension: text('extension').notNull(),
    contentType: text('content_type').notNull(),
    revision: text('revision').notNull(),
    current: integer('current', { mode: 'boolean' }).notNull(),
    state: text('state', { enum: ['pending', 'ready', 'skipped', 'failed'] }).notNull(),
    reason: text('reason'),
    /** Of a rendition of several files, key and hash are those of its first file, and `bytes` those of all. */
    objectKey: text('object_key'),
    sha256: text('sha256'),
    bytes: integer('bytes'),
    files: integer('files'),
    width: integer('width'),
    height: integer('height'),
    updatedAtMs: integer('updated_at_ms').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.mediaId, table.name, table.extension, table.revision] }),
    index('renditions_by_object').on(table.objectKey),
    // Of the few that have piece digests.
    index('renditions_by_large_content').on(table.sha256).where(sql`bytes > 1048576`),
  ],
);

/** Files of renditions that consist of several. There before their objects are, and delivered once the rendition is `ready`. */
export const renditionFiles = sqliteTable(
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
    bytes: integer('bytes').notNull(),
  },
  (table) => [
    // A path names no extension of the rendition: two with equal names would share a folder.
    primaryKey({ columns: [table.mediaId, table.name, table.revision, table.file] }),
    foreignKey({
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
export const deployments = sqliteTable('deployments', {
  id: text('id').primaryKey(),
  createdAtMs: integer('created_at_ms').notNull(),
});

/** SHA-256 of each piece of objects that are larger than one, 32 bytes after 32 bytes. */
export const pieceDigests = sqliteTable('piece_digests', {
  sha256: text('sha256').primaryKey(),
  digests: blob('digests', { mode: 'buffer' }).notNull(),
});

/** Contents of which a media object was deleted, until its objects were looked for in the store once it was certain that nobody puts any more. */
export const contentRemovals = sqliteTable('content_removals', {
  sha256: text('sha256').primaryKey(),
  sinceMs: integer('since_ms').notNull(),
});

export const jobs = sqliteTable(
  'jobs',
  {
    /** Counts up in the order of acceptance, which no clock gives: of equal priority, the oldest goes first. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    mediaId: text('media_id')
      .notNull()
      .unique()
      .references(() => media.id, { onDelete: 'cascade' }),
    /** Smaller is more urgent. */
    priority: integer('priority').notNull(),
    dueAtMs: integer('due_at_ms').notNull(),
    attempts: integer('attempts').notNull().default(0),
    lostLeases: integer('lost_leases').notNull().default(0),
    leaseToken: text('lease_token'),
    leaseWorker: text('lease_worker'),
    leaseBeat: integer('lease_beat').notNull().default(0),
    /** For how long the beat is known to have stood still, in milliseconds. */
    leaseSilentMs: integer('lease_silent_ms').notNull().default(0),
    lastReason: text('last_reason'),
    /** Share of the work that is done, 0 to 1; null while nobody works on it. */
    progress: real('progress'),
  },
  (table) => [index('jobs_due').on(table.leaseToken, table.priority, table.id)],
);

/** Runs of jobs, for those who ask why a media object is as it is: the latest few of each media object. */
export const processingAttempts = sqliteTable(
  'processing_attempts',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    mediaId: text('media_id')
      .notNull()
      .references(() => media.id, { onDelete: 'cascade' }),
    leaseToken: text('lease_token').notNull().unique(),
    attempt: integer('attempt').notNull(),
    worker: text('worker').notNull(),
    startedAtMs: integer('started_at_ms').notNull(),
    endedAtMs: integer('ended_at_ms'),
    outcome: text('outcome', { enum: ['running', 'ready', 'failed', 'retried', 'released', 'lost'] }).notNull(),
    failure: text('failure', { mode: 'json' }).$type<{ code: string; message: string; retryable: boolean }>(),
    report: text('report', { mode: 'json' }).$type<AttemptReport>(),
  },
  (table) => [index('attempts_of_media').on(table.mediaId, table.id)],
);

/** What happened, in order: for listeners, the latest of it. */
export const events = sqliteTable('events', {
  seq: integer('seq').primaryKey({ autoIncrement: true }),
  /** Null: concerns every project. */
  projectId: text('project_id'),
  type: text('type').$type<KeptEventType>().notNull(),
  data: text('data', { mode: 'json' }).$type<Record<string, unknown>>().notNull(),
  createdAtMs: integer('created_at_ms').notNull(),
});

/** Files on their way in from URLs, and the latest of those that are over. */
export const fetches = sqliteTable(
  'fetches',
  {
    id: text('id').primaryKey(),
    projectId: text('project_id')
      .notNull()
      .references(() => projects.id),
    createdAtMs: integer('created_at_ms').notNull(),
    updatedAtMs: integer('updated_at_ms').notNull(),
    /** Whole while it is needed; without its query, which may hold a secret, once the fetch is over. */
    sourceUrl: text('source_url').notNull(),
    /** Of the request, by which a repetition of it is known. */
    requestSha256: text('request_sha256').notNull(),
    idempotencyKey: text('idempotency_key'),
    filename: text('filename'),
    duplicate: text('duplicate', { enum: ['existing', 'allow'] }).notNull(),
    status: text('status', { enum: ['queued', 'fetching', 'done', 'failed', 'canceled'] }).notNull(),
    /** Bytes that are synced to disk. */
    receivedBytes: integer('received_bytes').notNull().default(0),
    totalBytes: integer('total_bytes'),
    /** Strong validator of what was received: what `If-Range` asks for. */
    validator: text('validator'),
    attempts: integer('attempts').notNull().default(0),
    /** Attempts since the last one that brought the fetch further. */
    fruitlessAttempts: integer('fruitless_attempts').notNull().default(0),
    /** Time that all attempts took, by monotonic clocks. */
    spentMs: integer('spent_ms').notNull().default(0),
    dueAtMs: integer('due_at_ms').notNull(),
    /** All bytes are there and are being accepted: nothing can be canceled any more. */
    accepting: integer('accepting', { mode: 'boolean' }).notNull().default(false),
    mediaId: text('media_id'),
    mediaCreated: integer('media_created', { mode: 'boolean' }),
    failure: text('failure', { mode: 'json' }).$type<{ code: string; message: string; retryable: boolean }>(),
    leaseToken: text('lease_token'),
    leaseBeat: integer('lease_beat').notNull().default(0),
    /** For how long the beat is known to have stood still, in milliseconds. */
    leaseSilentMs: integer('lease_silent_ms').notNull().default(0),
  },
  (table) => [
    index('fetches_by_project').on(table.projectId, table.id),
    index('fetches_by_project_status').on(table.projectId, table.status, table.id),
    index('fetches_due').on(table.status, table.dueAtMs, table.id),
    unique('fetches_idempotency').on(table.projectId, table.idempotencyKey),
  ],
);

export const workers = sqliteTable('workers', {
  id: text('id').primaryKey(),
  pid: integer('pid').notNull(),
  concurrency: integer('concurrency').notNull(),
  beat: integer('beat').notNull(),
  /** Null, as the two below: its process is of a version that did not say. */
  host: text('host'),
  region: text('region'),
  /** An instant. */
  sinceMs: integer('since_ms'),
});

export const regions = sqliteTable('regions', {
  code: text('code').primaryKey(),
  name: text('name').notNull(),
  zone: text('zone').notNull(),
  country: text('country').notNull(),
  maintenance: integer('maintenance', { mode: 'boolean' }).notNull().default(false),
});

export const regionNodes = sqliteTable('region_nodes', {
  id: text('id').primaryKey(),
  region: text('region')
    .notNull()
    .references(() => regions.code, { onDelete: 'cascade' }),
  beat: integer('beat').notNull(),
  seenAtMs: integer('seen_at_ms').notNull(),
  /** The last event that the node has acted upon; null while it has not said. */
  eventsThrough: integer('events_through'),
});

export const assets = sqliteTable(
  'assets',
  {
    id: text('id').primaryKey(),
    region: text('region').notNull(),
    path: text('path').notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
    bytes: integer('bytes').notNull(),
    cacheStatus: text('cache_status', { enum: ['HIT', 'MISS'] }).notNull(),
    /** Grows with every request: the order of the list, whatever clocks do. */
    requestSeq: integer('request_seq').notNull(),
  },
  (table) => [
    unique('assets_by_path').on(table.region, table.path),
    index('assets_latest_in_region').on(table.region, table.requestSeq),
    index('assets_latest').on(table.requestSeq),
  ],
);

export const formatProofs = sqliteTable(
  'format_proofs',
  {
    engineKey: text('engine_key').notNull(),
    formatId: text('format_id').notNull(),
    ok: integer('ok', { mode: 'boolean' }).notNull(),
    reason: text('reason'),
  },
  (table) => [primaryKey({ columns: [table.engineKey, table.formatId] })],
);

/** Resumable uploads: what is known of them but their bytes, and the lock of each. Rows of those that are over stay for a while. */
export const uploads = sqliteTable(
  'uploads',
  {
    id: text('id').primaryKey(),
    projectId: text('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    /** No reference: an upload outlives the token that began it. */
    tokenSha256: text('token_sha256').notNull(),
    createdAtMs: integer('created_at_ms').notNull(),
    expiresAtMs: integer('expires_at_ms').notNull(),
    metadata: text('metadata', { mode: 'json' }).$type<Record<string, string | null>>(),
    filename: text('filename'),
    duplicate: text('duplicate', { enum: ['existing', 'allow'] }).notNull(),
    idempotencyKey: text('idempotency_key'),
    expectedSha256: text('expected_sha256'),
    length: integer('length'),
    state: text('state', { enum: ['open', 'accepted', 'rejected', 'terminated', 'expired'] }).notNull(),
    /** No reference: it tells what became of the upload, also once the media object is deleted. */
    mediaId: text('media_id'),
    mediaCreated: integer('media_created', { mode: 'boolean' }),
    failure: text('failure', { mode: 'json' }).$type<{ code: string; message: string }>(),
    lockHolder: text('lock_holder'),
    lockBeat: integer('lock_beat').notNull().default(0),
    lockReleaseRequested: integer('lock_release_requested', { mode: 'boolean' }).notNull().default(false),
  },
  (table) => [
    index('uploads_by_token').on(table.tokenSha256, table.state),
    index('uploads_by_state').on(table.state, table.id),
    index('uploads_by_expiry').on(table.state, table.expiresAtMs),
    index('uploads_by_lock').on(table.lockHolder),
  ],
);

/** Counters that change with every write a reader could see: what hot answers are checked against. */
export const versions = sqliteTable('versions', {
  name: text('name').primaryKey(),
  value: integer('value').notNull(),
});
