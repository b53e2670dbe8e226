import type { Migration, MigrationRequest } from '@mds/contract';
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
