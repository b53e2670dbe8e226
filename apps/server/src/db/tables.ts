import { sql } from 'drizzle-orm';
import type { KeptEventType } from './event-data.ts';
import type { AttemptReport } from './job-queue.ts';
import type { postgresColumns } from './postgres/columns.ts';

/** Makes tables and columns of one dialect. */
export type ColumnTypes = typeof postgresColumns;

/** All tables, as every repository sees them. */
export type Tables = ReturnType<typeof defineTables>;

/**
 * Defines every table once, for both dialects. Instants are milliseconds since the epoch; hashes are lower-case hexadecimal digits.
 * A new table is listed in `sqlite/schema.ts` and `postgres/schema.ts`, too, from which drizzle-kit generates migrations.
 */
export function defineTables(types: ColumnTypes) {
  const projects = defineProjectTables(types);
  const media = defineMediaTables(types, projects);
  return {
    ...projects,
    ...media,
    ...defineJobTables(types, media),
    ...defineArrivalTables(types, projects),
    ...defineDeliveryTables(types),
    ...defineSystemTables(types),
  };
}

/** Projects, their hosts and tokens. */
function defineProjectTables({ table, text, bigint }: ColumnTypes) {
  const projects = table('projects', {
    id: text('id').primaryKey(),
    name: text('name').notNull(),
    createdAtMs: bigint('created_at_ms').notNull(),
  });

  const projectHosts = table('project_hosts', {
    host: text('host').primaryKey(),
    projectId: text('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
  });

  const tokens = table('tokens', {
    sha256: text('sha256').primaryKey(),
    name: text('name').notNull(),
    projectId: text('project_id')
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    scope: text<'ingest' | 'operate'>('scope').notNull(),
    createdAtMs: bigint('created_at_ms').notNull(),
  });

  return { projects, projectHosts, tokens };
}

/** Media, their renditions, and the data about their content. */
function defineMediaTables(
  { table, text, integer, bigint, boolean, json, bytes, index, unique, primaryKey, foreignKey }: ColumnTypes,
  { projects }: ReturnType<typeof defineProjectTables>,
) {
  const media = table(
    'media',
    {
      id: text('id').primaryKey(),
      projectId: text('project_id')
        .notNull()
        .references(() => projects.id),
      createdAtMs: bigint('created_at_ms').notNull(),
      contentType: text('content_type').notNull(),
      bytes: bigint('bytes').notNull(),
      width: integer('width').notNull(),
      height: integer('height').notNull(),
      status: text<'queued' | 'processing' | 'ready' | 'failed'>('status').notNull(),
      filename: text('filename'),
      sha256: text('sha256').notNull(),
      kind: text<'image' | 'video' | 'audio'>('kind').notNull(),
      format: text('format').notNull(),
      durationMs: bigint('duration_ms'),
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

  const mediaRenditions = table(
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
      /** If it has several files, key and hash are those of the first, and `bytes` those of all. */
      objectKey: text('object_key'),
      sha256: text('sha256'),
      bytes: bigint('bytes'),
      files: integer('files'),
      width: integer('width'),
      height: integer('height'),
      updatedAtMs: bigint('updated_at_ms').notNull(),
    },
    (table) => [
      primaryKey({ columns: [table.mediaId, table.name, table.extension, table.revision] }),
      index('renditions_by_object').on(table.objectKey),
      // Only the few renditions that are large enough for piece digests.
      index('renditions_by_large_content').on(table.sha256).where(sql`bytes > 1048576`),
    ],
  );

  /** Files of renditions with several files. Rows are written before their objects, and delivered once `ready`. */
  const renditionFiles = table(
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
      bytes: bigint('bytes').notNull(),
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

  /** SHA-256 of each piece of objects that are larger than one, 32 bytes after 32 bytes. */
  const pieceDigests = table('piece_digests', {
    sha256: text('sha256').primaryKey(),
    digests: bytes('digests').notNull(),
  });

  /** Contents of deleted media objects. Rows stay until a sweep of the store after the last possible write. */
  const contentRemovals = table('content_removals', {
    sha256: text('sha256').primaryKey(),
    sinceMs: bigint('since_ms').notNull(),
  });

  return { media, mediaRenditions, renditionFiles, pieceDigests, contentRemovals };
}

/** The queue. */
function defineJobTables(
  { table, text, integer, bigint, sequence, double, json, index }: ColumnTypes,
  { media }: ReturnType<typeof defineMediaTables>,
) {
  const jobs = table(
    'jobs',
    {
      /** The order of acceptance, which no clock provides. Among jobs of equal priority, the oldest is first. */
      id: sequence('id'),
      mediaId: text('media_id')
        .notNull()
        .unique()
        .references(() => media.id, { onDelete: 'cascade' }),
      /** Smaller is more urgent. */
      priority: integer('priority').notNull(),
      dueAtMs: bigint('due_at_ms').notNull(),
      attempts: integer('attempts').notNull().default(0),
      lostLeases: integer('lost_leases').notNull().default(0),
      leaseToken: text('lease_token'),
      leaseWorker: text('lease_worker'),
      leaseBeat: bigint('lease_beat').notNull().default(0),
      /** For how long the beat is known to have stood still, in milliseconds. */
      leaseSilentMs: bigint('lease_silent_ms').notNull().default(0),
      lastReason: text('last_reason'),
      /** Share of the work that is done, 0 to 1; null while nobody works on it. */
      progress: double('progress'),
    },
    (table) => [index('jobs_due').on(table.leaseToken, table.priority, table.id)],
  );

  /** The latest runs of the jobs of each media object, which explain its state. */
  const processingAttempts = table(
    'processing_attempts',
    {
      id: sequence('id'),
      mediaId: text('media_id')
        .notNull()
        .references(() => media.id, { onDelete: 'cascade' }),
      leaseToken: text('lease_token').notNull().unique(),
      attempt: integer('attempt').notNull(),
      worker: text('worker').notNull(),
      startedAtMs: bigint('started_at_ms').notNull(),
      endedAtMs: bigint('ended_at_ms'),
      outcome: text<'running' | 'ready' | 'failed' | 'retried' | 'released' | 'lost'>('outcome').notNull(),
      failure: json<{ code: string; message: string; retryable: boolean }>('failure'),
      report: json<AttemptReport>('report'),
    },
    (table) => [index('attempts_of_media').on(table.mediaId, table.id)],
  );

  const workers = table('workers', {
    id: text('id').primaryKey(),
    pid: integer('pid').notNull(),
    concurrency: integer('concurrency').notNull(),
    beat: bigint('beat').notNull(),
    /** This field and the two below are null if the process is of a version that did not send them. */
    host: text('host'),
    region: text('region'),
    /** An instant. */
    sinceMs: bigint('since_ms'),
  });

  return { jobs, processingAttempts, workers };
}

/** Files that are arriving. */
function defineArrivalTables(
  { table, text, integer, bigint, boolean, json, index, unique }: ColumnTypes,
  { projects }: ReturnType<typeof defineProjectTables>,
) {
  /** Files on their way in from URLs, and the latest of those that are over. */
  const fetches = table(
    'fetches',
    {
      id: text('id').primaryKey(),
      projectId: text('project_id')
        .notNull()
        .references(() => projects.id),
      createdAtMs: bigint('created_at_ms').notNull(),
      updatedAtMs: bigint('updated_at_ms').notNull(),
      /** Whole while it is needed; without its query, which may hold a secret, once the fetch is over. */
      sourceUrl: text('source_url').notNull(),
      /** The hash of the request, which identifies a repetition. */
      requestSha256: text('request_sha256').notNull(),
      idempotencyKey: text('idempotency_key'),
      filename: text('filename'),
      duplicate: text<'existing' | 'allow'>('duplicate').notNull(),
      status: text<'queued' | 'fetching' | 'done' | 'failed' | 'canceled'>('status').notNull(),
      /** Bytes that are synced to disk. */
      receivedBytes: bigint('received_bytes').notNull().default(0),
      totalBytes: bigint('total_bytes'),
      /** Strong validator of the received bytes, for `If-Range`. */
      validator: text('validator'),
      attempts: integer('attempts').notNull().default(0),
      /** Attempts since the last one that brought the fetch further. */
      fruitlessAttempts: integer('fruitless_attempts').notNull().default(0),
      /** Time that all attempts took, by monotonic clocks. */
      spentMs: bigint('spent_ms').notNull().default(0),
      dueAtMs: bigint('due_at_ms').notNull(),
      /** All bytes are there and are being accepted: nothing can be canceled any more. */
      accepting: boolean('accepting').notNull().default(false),
      mediaId: text('media_id'),
      mediaCreated: boolean('media_created'),
      failure: json<{ code: string; message: string; retryable: boolean }>('failure'),
      leaseToken: text('lease_token'),
      leaseBeat: bigint('lease_beat').notNull().default(0),
      /** For how long the beat is known to have stood still, in milliseconds. */
      leaseSilentMs: bigint('lease_silent_ms').notNull().default(0),
    },
    (table) => [
      index('fetches_by_project').on(table.projectId, table.id),
      index('fetches_by_project_status').on(table.projectId, table.status, table.id),
      index('fetches_due').on(table.status, table.dueAtMs, table.id),
      unique('fetches_idempotency').on(table.projectId, table.idempotencyKey),
    ],
  );

  /** Resumable uploads without their bytes, with the lock of each. Rows of ended uploads stay for a while. */
  const uploads = table(
    'uploads',
    {
      id: text('id').primaryKey(),
      projectId: text('project_id')
        .notNull()
        .references(() => projects.id, { onDelete: 'cascade' }),
      /** No reference: an upload outlives the token that began it. */
      tokenSha256: text('token_sha256').notNull(),
      createdAtMs: bigint('created_at_ms').notNull(),
      expiresAtMs: bigint('expires_at_ms').notNull(),
      metadata: json<Record<string, string | null>>('metadata'),
      filename: text('filename'),
      duplicate: text<'existing' | 'allow'>('duplicate').notNull(),
      idempotencyKey: text('idempotency_key'),
      expectedSha256: text('expected_sha256'),
      length: bigint('length'),
      state: text<'open' | 'accepted' | 'rejected' | 'terminated' | 'expired'>('state').notNull(),
      /** Not a foreign key: it records the result of the upload even after the media object is deleted. */
      mediaId: text('media_id'),
      mediaCreated: boolean('media_created'),
      failure: json<{ code: string; message: string }>('failure'),
      lockHolder: text('lock_holder'),
      lockBeat: bigint('lock_beat').notNull().default(0),
      lockReleaseRequested: boolean('lock_release_requested').notNull().default(false),
    },
    (table) => [
      index('uploads_by_token').on(table.tokenSha256, table.state),
      index('uploads_by_state').on(table.state, table.id),
      index('uploads_by_expiry').on(table.state, table.expiresAtMs),
      index('uploads_by_lock').on(table.lockHolder),
    ],
  );

  return { fetches, uploads };
}

/** Regions and their deliveries. */
function defineDeliveryTables({ table, text, bigint, boolean, index, unique, primaryKey }: ColumnTypes) {
  const regions = table('regions', {
    code: text('code').primaryKey(),
    name: text('name').notNull(),
    zone: text('zone').notNull(),
    country: text('country').notNull(),
    maintenance: boolean('maintenance').notNull().default(false),
  });

  const regionNodes = table('region_nodes', {
    id: text('id').primaryKey(),
    region: text('region')
      .notNull()
      .references(() => regions.code, { onDelete: 'cascade' }),
    beat: bigint('beat').notNull(),
    seenAtMs: bigint('seen_at_ms').notNull(),
    /** The last event that the node has acted upon; null while it has not said. */
    eventsThrough: bigint('events_through'),
  });

  const assets = table(
    'assets',
    {
      id: text('id').primaryKey(),
      region: text('region').notNull(),
      path: text('path').notNull(),
      createdAtMs: bigint('created_at_ms').notNull(),
      bytes: bigint('bytes').notNull(),
      cacheStatus: text<'HIT' | 'MISS'>('cache_status').notNull(),
      /** Grows with every request: the order of the list, whatever clocks do. */
      requestSeq: bigint('request_seq').notNull(),
    },
    (table) => [
      unique('assets_by_path').on(table.region, table.path),
      index('assets_latest_in_region').on(table.region, table.requestSeq),
      index('assets_latest').on(table.requestSeq),
    ],
  );

  const formatProofs = table(
    'format_proofs',
    {
      engineKey: text('engine_key').notNull(),
      formatId: text('format_id').notNull(),
      ok: boolean('ok').notNull(),
      reason: text('reason'),
    },
    (table) => [primaryKey({ columns: [table.engineKey, table.formatId] })],
  );

  return { regions, regionNodes, assets, formatProofs };
}

/** The database itself. */
function defineSystemTables({ table, text, bigint, sequence, json }: ColumnTypes) {
  /**
   * The deployment of this database, in one row. External storage is marked with its id, so that they cannot be mixed
   * up.
   */
  const deployments = table('deployments', {
    id: text('id').primaryKey(),
    createdAtMs: bigint('created_at_ms').notNull(),
  });

  /** The latest events in order, for listeners. */
  const events = table('events', {
    seq: sequence('seq'),
    /** Null: concerns every project. */
    projectId: text('project_id'),
    type: text<KeptEventType>('type').notNull(),
    data: json<Record<string, unknown>>('data').notNull(),
    createdAtMs: bigint('created_at_ms').notNull(),
  });

  /** Counters that change with every write that a reader can see. Cached answers are checked against them. */
  const versions = table('versions', {
    name: text('name').primaryKey(),
    value: bigint('value').notNull(),
  });

  return { deployments, events, versions };
}
