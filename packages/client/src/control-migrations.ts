import type { Migration, MigrationRequest } from '@mds/contract';
import { migrationsRoutes } from './routes.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** The operator's part of moving a deployment to PostgreSQL and S3. */
export interface ControlMigrations {
  /**
   * Begins to move the deployment, and resolves once the destination was found fit. {@link ControlMigrations.current} says how far it is.
   * @throws ApiError `state_conflict` where one is under way or done, `invalid_request` where the destination cannot be used
   */
  begin(where: MigrationRequest, options?: RequestOptions): Promise<Migration>;
  /** @throws ApiError `not_found` where none was begun since the service started */
  current(options?: RequestOptions): Promise<Migration>;
  /** Ends it, and has the service take writes again. */
  cancel(options?: RequestOptions): Promise<Migration>;
}

/** The service waits for a database that is coming up, and looks at all of its tables; in milliseconds. */
const BEGIN_TIMEOUT_MS = 60_000;

/**
 * Makes {@link ControlMigrations} over a transport.
 * @param timeoutMs the client's limit for one attempt, 0 for none
 */
export function createControlMigrations(transport: Transport, timeoutMs: number): ControlMigrations {
  const patientMs = timeoutMs === 0 ? 0 : Math.max(timeoutMs, BEGIN_TIMEOUT_MS);
  return {
    begin: async (where, { signal } = {}) =>
      (
        await transport.call(
          migrationsRoutes.create,
          { body: where },
          { signal, authorize: true, timeoutMs: patientMs },
        )
      ).body,
    current: async ({ signal } = {}) =>
      (await transport.call(migrationsRoutes.get, {}, { signal, authorize: true })).body,
    // What is under way comes to its end first.
    cancel: async ({ signal } = {}) =>
      (await transport.call(migrationsRoutes.cancel, {}, { signal, authorize: true, timeoutMs: patientMs })).body,
  };
}
