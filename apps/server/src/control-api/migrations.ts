import { type Migration as MigrationDocument, type MigrationRequest, migrationsApi } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import { AppError } from '../base/app-error.ts';
import type { Presented } from '../base/presented.ts';
import { DatabaseRefusedError } from '../db/database-refused-error.ts';
import type { Migration } from '../migration/migration.ts';
import { redactedUrl } from '../migration/redacted-url.ts';
import type { Destination, MigrationProgress } from '../migration/migration-progress.ts';
import { ObjectStorageError } from '../storage/s3-failure.ts';
import { requireDeploymentOperator } from './authenticate.ts';

/** What the routes of migrations need. */
export interface ControlMigrationsParts {
  /** Null: the service's database is no embedded one. */
  migration: Migration | null;
  /** Where the service's own S3 server is, and that of a destination which names none; null: Amazon. */
  s3Endpoint: string | null;
  /** @throws DatabaseRefusedError, ObjectStorageError, RangeError, AppError: what is wrong with the destination */
  openDestination(where: MigrationRequest): Promise<Destination>;
}

/** `/control/v1/migrations`. Of what is sent only what is no secret is told again. */
export function createControlMigrationsHandlers({ migration, s3Endpoint, openDestination }: ControlMigrationsParts) {
  /** Of the one that is under way or done: without the password. */
  let settings: Record<string, string> | null = null;

  const present = (standing: MigrationProgress): Presented<MigrationDocument> => ({
    object: 'migration',
    state: standing.state,
    phase: standing.phase,
    started_at: instant(standing.startedAtMs),
    frozen_at: standing.frozenAtMs === null ? null : instant(standing.frozenAtMs),
    ended_at: standing.endedAtMs === null ? null : instant(standing.endedAtMs),
    writes_refused: standing.frozen,
    destination: standing.destination,
    objects: {
      passes: standing.objects.passes,
      verified: standing.objects.verified,
      verified_bytes: standing.objects.verifiedBytes,
      copied: standing.objects.copied,
      copied_bytes: standing.objects.copiedBytes,
      total: standing.extent?.objects ?? null,
      total_bytes: standing.extent?.bytes ?? null,
    },
    rows: { copied: standing.copiedRows, total: standing.extent?.rows ?? null, tables: standing.tables },
    open_uploads: standing.openUploads,
    error_count: standing.errorCount,
    errors: standing.errors,
    settings: standing.state === 'done' ? settings : null,
  });

  return initServer().router(migrationsApi, {
    create: async ({ body, req }) => {
      requireDeploymentOperator(req);
      if (migration === null) {
        throw new AppError('state_conflict', 'This service is on PostgreSQL already: there is nothing to move.');
      }
      const where = body.s3_endpoint === undefined && s3Endpoint !== null ? { ...body, s3_endpoint: s3Endpoint } : body;
      const standing = await migration.begin(() => openDestination(where).catch((error) => refuse(error)));
      settings = settingsOf(where);
      return { status: 202, body: present(standing) };
    },

    get: async ({ req }) => {
      requireDeploymentOperator(req);
      const standing = migration?.current() ?? null;
      if (standing === null) throw noneBegun();
      return { status: 200, body: present(standing) };
    },

    cancel: async ({ req }) => {
      requireDeploymentOperator(req);
      if (migration === null || migration.current() === null) throw noneBegun();
      return { status: 200, body: present(await migration.cancel()) };
    },
  });
}

const instant = (ms: number) => new Date(ms).toISOString();

function settingsOf({ database_url, storage_url, s3_endpoint }: MigrationRequest): Record<string, string> {
  return {
    MDS_DATABASE_URL: redactedUrl(database_url),
    MDS_STORAGE_URL: storage_url,
    ...(s3_endpoint !== undefined && { MDS_S3_ENDPOINT: redactedUrl(s3_endpoint) }),
  };
}

/** What is wrong with a destination is its operator's to see; what names a secret is not said by any of these. */
function refuse(error: unknown): never {
  const isForeseen =
    error instanceof DatabaseRefusedError || error instanceof ObjectStorageError || error instanceof RangeError;
  if (!isForeseen) throw error;
  // Of a URL alone it is said what is wrong with it, and not which one it is.
  const said = error instanceof RangeError ? `storage_url: ${error.message}` : inFields(error.message);
  throw new AppError('invalid_request', `The destination cannot be used. ${said}`, { cause: error });
}

/** The settings of a service that is there already, as the fields that give them here. */
function inFields(message: string): string {
  return message
    .replaceAll('MDS_DATABASE_URL', 'database_url')
    .replaceAll('MDS_STORAGE_URL', 'storage_url')
    .replaceAll('MDS_S3_ENDPOINT', 's3_endpoint');
}

function noneBegun(): AppError {
  return new AppError('not_found', 'No migration was begun since this service started.');
}
