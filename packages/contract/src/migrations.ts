import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { controlProblems, problemResponse } from './problem.ts';
import { Timestamp } from './scalars.ts';

const c = initContract();

/** The destination of a migration. */
export const MigrationRequest = z
  .strictObject({
    database_url: z
      .string()
      .max(4096)
      .regex(/^postgres(ql)?:\/\//, 'must begin with postgres://')
      .meta({
        description:
          'URL of an empty PostgreSQL database, as in `MDS_DATABASE_URL`; kept in memory only, and never returned',
      }),
    storage_url: z
      .string()
      .max(2048)
      .regex(/^s3:\/\/[^/?#]+/, 'must be s3://bucket or s3://bucket/prefix')
      .meta({ description: 'As in `MDS_STORAGE_URL`. The service uses its own credentials (`AWS_ACCESS_KEY_ID`, …)' }),
    s3_endpoint: z
      .url({ protocol: /^https?$/ })
      .max(2048)
      .optional()
      .meta({
        description:
          'Endpoint of an S3 server other than AWS, as in `MDS_S3_ENDPOINT`; by default the value of that setting',
      }),
  })
  .meta({ id: 'MigrationRequest' });
export type MigrationRequest = z.infer<typeof MigrationRequest>;

/** `running -> done | failed | canceled`. `done -> canceled` if the operator wants to stay at the old place. */
export const MigrationState = z.enum(['running', 'done', 'failed', 'canceled']);
export type MigrationState = z.infer<typeof MigrationState>;

/** The current phase of a migration, or its last one. Writes are refused from `freeze` on, while the latest changes are copied. */
export const MigrationPhase = z.enum(['objects', 'rows', 'verify', 'freeze', 'changes', 'done']);
export type MigrationPhase = z.infer<typeof MigrationPhase>;

/** The move of a running deployment to another database and storage. */
export const Migration = z
  .strictObject({
    object: z.literal('migration'),
    state: MigrationState,
    phase: MigrationPhase,
    started_at: Timestamp,
    frozen_at: Timestamp.nullable().meta({
      description: 'Time from which writes were refused; null if they never were',
    }),
    ended_at: Timestamp.nullable(),
    writes_refused: z
      .boolean()
      .meta({ description: 'True while writes are refused; reads and delivery always continue' }),
    destination: z.strictObject({
      database: z.string().meta({ description: 'Host, port and database, without the password' }),
      storage: z.string(),
    }),
    objects: z.strictObject({
      passes: z.int().min(0).meta({ description: 'Number of passes over the whole storage' }),
      verified: z.int().min(0).meta({ description: 'Objects whose bytes are at the destination, checked by SHA-256' }),
      verified_bytes: z.int().min(0),
      copied: z.int().min(0).meta({ description: 'Verified objects that were not at the destination before' }),
      copied_bytes: z.int().min(0),
      total: z.int().min(0).nullable().meta({
        description:
          'Objects of all media at the start, counted once for each media object that uses them; new ones may be added later. Null until counted',
      }),
      total_bytes: z.int().min(0).nullable(),
    }),
    rows: z.strictObject({
      copied: z.int().min(0).meta({ description: 'Rows copied; a row that changes in the meantime counts again' }),
      total: z.int().min(0).nullable().meta({ description: 'Rows at the start; null until counted' }),
      tables: z
        .array(
          z.strictObject({
            name: z.string(),
            rows: z.int().min(0),
            sha256: z.string().meta({ description: 'Sum of the SHA-256 of all rows, modulo 2^256' }),
          }),
        )
        .meta({ description: 'Counts and checksums, equal on both sides; filled after all rows are verified' }),
    }),
    open_uploads: z.int().min(0).nullable().meta({
      description: 'Resumable uploads that were open at the freeze and are not moved; null before the freeze',
    }),
    error_count: z.int().min(0),
    errors: z
      .array(z.strictObject({ key: z.string().nullable(), message: z.string() }))
      .meta({ description: 'The first 100 errors; `key` is the affected object' }),
    settings: z.record(z.string(), z.string()).nullable().meta({
      description: 'Settings for the service at the destination; fill in the passwords. Null until `done`',
    }),
  })
  .meta({ id: 'Migration' });
export type Migration = z.infer<typeof Migration>;

/** The operator's routes for moving a deployment. */
export const migrationsRoutes = c.router({
  create: {
    method: 'POST',
    path: '/migrations',
    summary: 'Move the deployment to PostgreSQL and S3',
    description:
      'Copies and verifies everything while the service runs, and ends with equal checksums on both sides. Writes are refused during the last part; reads are always answered. Returns 409 if a migration is running or done, or if the database is not the embedded one.',
    body: MigrationRequest,
    responses: { ...controlProblems, 202: Migration, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
  get: {
    method: 'GET',
    path: '/migrations/current',
    summary: 'Get the progress of the migration',
    description: 'Returns the latest migration. Returns 404 if none was started since the service started.',
    responses: { ...controlProblems, 200: Migration, 404: problemResponse },
    metadata: { scope: 'operate' },
  },
  cancel: {
    method: 'DELETE',
    path: '/migrations/current',
    summary: 'Cancel the migration',
    description:
      'The service accepts writes again, even after `done`. The data at the destination stays, and a later migration does not copy its objects again.',
    responses: { ...controlProblems, 200: Migration, 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
});
