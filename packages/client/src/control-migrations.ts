import type { Migration, MigrationRequest } from '@mds/contract';
import type { RequestOptions, Transport } from './transport.ts';

/** The operator's methods for moving a deployment to PostgreSQL and S3. */
export interface ControlMigrations {
  /**
   * Starts to move the deployment, and resolves after the destination was checked. {@link ControlMigrations.current} reports the progress.
   * @throws ApiError `state_conflict` if a migration is running or done, `invalid_request` if the destination cannot be used
   */
  begin(where: MigrationRequest, options?: RequestOptions): Promise<Migration>;
  /** The latest migration. @throws ApiError `not_found` if none was started since the service started */
  current(options?: RequestOptions): Promise<Migration>;
  /** Cancels the migration; the service accepts writes again. */
  cancel(options?: RequestOptions): Promise<Migration>;
}

/** In milliseconds: the service waits for a database that is starting, and checks all of its tables. */
const BEGIN_TIMEOUT_MS = 60_000;

/** Makes {@link ControlMigrations} over a transport. */
export function createControlMigrations(transport: Transport): ControlMigrations {
  // 0: no limit.
  const timeoutMs = transport.timeoutMs === 0 ? 0 : Math.max(transport.timeoutMs, BEGIN_TIMEOUT_MS);
  return {
    begin: (where, { signal } = {}) =>
      transport.callJson('POST /control/v1/migrations', { body: where }, { signal, timeoutMs }),
    current: ({ signal } = {}) => transport.callJson('GET /control/v1/migrations/current', {}, { signal }),
    // The service first finishes the step that is under way.
    cancel: ({ signal } = {}) => transport.callJson('DELETE /control/v1/migrations/current', {}, { signal, timeoutMs }),
  };
}
