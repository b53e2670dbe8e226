import { api, type Migration as MigrationDocument, type MigrationRequest } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import { AppError } from '../base/app-error.ts';
import type { Presented } from '../base/presented.ts';
import { DatabaseRefusedError } from '../db/database-refused-error.ts';
import type { Migration } from '../migration/migration.ts';
import type { Destination, MigrationProgress } from '../migration/migration-progress.ts';
import { redactedUrl } from '../migration/redacted-url.ts';
import { ObjectStorageError } from '../storage/s3-failure.ts';
import { requireDeploymentOperator } from './authenticate.ts';

/** Parts of the migration routes. */
export interface ControlMigrationsParts {
  /** Null if the service's database is not the embedded one. */
  migration: Migration | null;
  /** Endpoint of the service's S3 server, and the default for a destination; null: AWS. */
  s3Endpoint: string | null;
  /** @throws DatabaseRefusedError, ObjectStorageError, RangeError or AppError if the destination is not usable */
  openDestination(where: MigrationRequest): Promise<Destination>;
}

/** The routes under `/control/v1/migrations`. No answer contains a secret from the request. */
export function createControlMigrationsHandlers({ migration, s3Endpoint, openDestination }: ControlMigrationsParts) {
  /** Settings of the latest migration's destination, without the password. */
  let settings: Record<string, string> | null = null;

  const present = (progress: MigrationProgress): Presented<MigrationDocument> => ({
    object: 'migration',
    state: progress.state,
    phase: progress.phase,
    started_at: instant(progress.startedAtMs),
    frozen_at: progress.frozenAtMs === null ? null : instant(progress.frozenAtMs),
    ended_at: progress.endedAtMs === null ? null : instant(progress.endedAtMs),
    writes_refused: progress.frozen,
    destination: progress.destination,
    objects: {
      passes: progress.objects.passes,
      verified: progress.objects.verified,
      verified_bytes: progress.objects.verifiedBytes,
      copied: progress.objects.copied,
      copied_bytes: progress.objects.copiedBytes,
      total: progress.extent?.objects ?? null,
      total_bytes: progress.extent?.bytes ?? null,
    },
    rows: { copied: progress.copiedRows, total: progress.extent?.rows ?? null, tables: progress.tables },
    open_uploads: progress.openUploads,
    error_count: progress.errorCount,
    errors: progress.errors,
    settings: progress.state === 'done' ? settings : null,
  });

  return initServer().router(api.control.migrations, {
    create: async ({ body, req }) => {
      requireDeploymentOperator(req);
      if (migration === null) {
        throw new AppError('state_conflict', 'This service already uses PostgreSQL: there is nothing to move.');
      }
      const where = body.s3_endpoint === undefined && s3Endpoint !== null ? { ...body, s3_endpoint: s3Endpoint } : body;
      const progress = await migration.begin(() => openDestination(where).catch((error) => refuse(error)));
      settings = settingsOf(where);
      return { status: 202, body: present(progress) };
    },

    get: async ({ req }) => {
      requireDeploymentOperator(req);
      const progress = migration?.current() ?? null;
      if (progress === null) throw noMigration();
      return { status: 200, body: present(progress) };
    },

    cancel: async ({ req }) => {
      requireDeploymentOperator(req);
      if (migration === null || migration.current() === null) throw noMigration();
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

/** Reports to the operator why a destination was refused. None of these messages contains a secret. */
function refuse(error: unknown): never {
  const isExpected =
    error instanceof DatabaseRefusedError || error instanceof ObjectStorageError || error instanceof RangeError;
  if (!isExpected) throw error;
  // A RangeError does not name the field of the URL.
  const reason = error instanceof RangeError ? `storage_url: ${error.message}` : withFieldNames(error.message);
  throw new AppError('invalid_request', `The destination cannot be used. ${reason}`, { cause: error });
}

/** Replaces names of settings by the fields that hold them in a request. */
function withFieldNames(message: string): string {
  return message
    .replaceAll('MDS_DATABASE_URL', 'database_url')
    .replaceAll('MDS_STORAGE_URL', 'storage_url')
    .replaceAll('MDS_S3_ENDPOINT', 's3_endpoint');
}

function noMigration(): AppError {
  return new AppError('not_found', 'No migration was started since this service started.');
}
