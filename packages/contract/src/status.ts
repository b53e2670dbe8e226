import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { commonProblems } from './problem.ts';
import { Timestamp } from './scalars.ts';

const c = initContract();

/** The states of Statuspage, best to worst. Maintenance is announced, so every outage ranks worse. */
export const ServiceStatus = z.enum([
  'operational',
  'under_maintenance',
  'degraded_performance',
  'partial_outage',
  'major_outage',
]);
export type ServiceStatus = z.infer<typeof ServiceStatus>;

/** The worst of several states: the state of the whole. `operational` if there are none. */
export function worstStatus(states: Iterable<ServiceStatus>): ServiceStatus {
  const order = ServiceStatus.options;
  let worst = 0;
  for (const state of states) worst = Math.max(worst, order.indexOf(state));
  return order[worst] ?? 'major_outage';
}

export const StatusComponent = z
  .strictObject({ name: z.string(), status: ServiceStatus })
  .meta({ id: 'StatusComponent' });
export type StatusComponent = z.infer<typeof StatusComponent>;

/** The status document of the promised read interface. The response status is always 200. */
export const Status = z
  .strictObject({
    status: ServiceStatus,
    version: z.literal('v1'),
    region: z.string().meta({ description: 'City of the region that answered', example: 'Frankfurt' }),
    components: z.array(StatusComponent),
    updated_at: Timestamp,
  })
  .meta({ id: 'Status' });
export type Status = z.infer<typeof Status>;

export const statusRoutes = c.router({
  get: {
    method: 'GET',
    path: '/status',
    summary: 'Get the service status',
    description: 'The state of the service and of its components, each probed. Never cached.',
    responses: { ...commonProblems, 200: Status },
    metadata: { cacheControl: 'no-store', query: [] },
  },
});
