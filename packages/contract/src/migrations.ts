import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { controlProblems, problemResponse } from './problem.ts';
import { Timestamp } from './scalars.ts';

const c = initContract();

/** Where a running deployment is to be moved to. */
export const MigrationRequest = z
  .strictObject({
    database_url: z
      .string()
      .max(4096)
      .regex(/^postgres(ql)?:\/\//, 'must begin with postgres://')
      .meta({
        description: 'An empty PostgreSQL database, as in `MDS_DATABASE_URL`; kept in memory only, and never told',
      }),
    storage_url: z
      .string()
      .max(2048)
      .regex(/^s3:\/\/[^/?#]+/, 'must be s3://bucket or s3://bucket/prefix')
      .meta({ description: 'As in `MDS_STORAGE_URL`. Credentials are those of the service (`AWS_ACCESS_KEY_ID`, …)' }),
    s3_endpoint: z
      .url({ protocol: /^https?$/ })
      .max(2048)
      .optional()
      .meta({
        description: 'Of a server that is not AWS, as in `MDS_S3_ENDPOINT`; that setting where it is left out',
      }),
  })
  .meta({ id: 'MigrationRequest' });
export type MigrationRequest = z.infer<typeof MigrationRequest>;

/** `running -> done | failed | canceled`, and `done -> canceled` by who wants to go on where the deployment was. */
export const MigrationState = z.enum(['running', 'done', 'failed', 'canceled']);
export type MigrationState = z.infer<typeof MigrationState>;

/** What a migration is at, or was when it ended. Writes are refused from `freeze` on, for as long as the latest changes take. */
export const MigrationPhase = z.enum(['objects', 'rows', 'verify', 'freeze', 'changes', 'done']);
export type MigrationPhase = z.infer<typeof MigrationPhase>;

/** The move of a running deployment to another database and storage. */
export const Migration = z
  .strictObject({
    object: z.literal('migration'),
    state: MigrationState,
    phase: MigrationPhase,
    started_at: Timestamp,
    frozen_at: Timestamp.nullable().meta({ description: 'Since when writes were refused; null: they never were' }),
    ended_at: Timestamp.nullable(),
    writes_refused: z.boolean().meta({ description: 'Reads and delivery go on all the time' }),
    destination: z.strictObject({
      database: z.string().meta({ description: 'Host, port and database; no password' }),
      storage: z.string(),
    }),
    objects: z.strictObject({
      passes: z.int().min(0).meta({ description: 'Times that all of the storage was gone through' }),
      verified: z.int().min(0).meta({ description: 'Objects whose bytes are at the destination, by SHA-256' }),
      verified_bytes: z.int().min(0),
      copied: z.int().min(0).meta({ description: 'Of these, the ones that were not there yet' }),
      copied_bytes: z.int().min(0),
      total: z.int().min(0).nullable().meta({
        description:
          'That media referred to when it began; one of two media counts twice, and more may have come. Null until counted',
      }),
      total_bytes: z.int().min(0).nullable(),
    }),
    rows: z.strictObject({
      copied: z.int().min(0).meta({ description: 'A row that changed meanwhile counts again' }),
      total: z.int().min(0).nullable().meta({ description: 'That there were when it began; null until counted' }),
      tables: z
        .array(
          z.strictObject({
            name: z.string(),
            rows: z.int().min(0),
            sha256: z.string().meta({ description: 'Sum of the SHA-256 of all rows, modulo 2^256' }),
          }),
        )
        .meta({ description: 'Once all are verified: counts and checksums, equal on both sides' }),
    }),
    open_uploads: z.int().min(0).nullable().meta({
      description: 'Resumable uploads that were open at the freeze: they do not move; null before',
    }),
    error_count: z.int().min(0),
    errors: z
      .array(z.strictObject({ key: z.string().nullable(), message: z.string() }))
      .meta({ description: 'The first 100; `key`: the object that it is about' }),
    settings: z.record(z.string(), z.string()).nullable().meta({
      description:
        'To start the service with at the destination, where passwords are to be filled in; null until it is `done`',
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
      'Copies and verifies everything while the service goes on, refuses writes for the last part of it, and ends with equal checksums. Reads are answered all the time. 409 where one is under way or done, and where the database is no embedded one.',
    body: MigrationRequest,
    responses: { ...controlProblems, 202: Migration, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
  get: {
    method: 'GET',
    path: '/migrations/current',
    summary: 'How far the migration is',
    description: 'The last one that was begun. 404 where none was since the service started.',
    responses: { ...controlProblems, 200: Migration, 404: problemResponse },
    metadata: { scope: 'operate' },
  },
  cancel: {
    method: 'DELETE',
    path: '/migrations/current',
    summary: 'Cancel the migration',
    description:
      'The service takes writes again, also after `done`. What is at the destination stays; objects are not copied again.',
    responses: { ...controlProblems, 200: Migration, 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
});
