import type { WorkerList } from '@mds/contract';
import { workersRoutes } from './routes.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** Who works. */
export interface ControlWorkers {
  /** Every worker that has announced itself, by id, each with the jobs that it has. All at once: there are no pages. */
  list(options?: RequestOptions): Promise<WorkerList>;
}

/** Makes {@link ControlWorkers} over a transport. */
export function createControlWorkers(transport: Transport): ControlWorkers {
  return {
    list: async ({ signal } = {}) => (await transport.call(workersRoutes.list, {}, { signal, authorize: true })).body,
  };
}
