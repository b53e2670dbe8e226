import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { commonProblems } from './problem.ts';
import { listOf, RegionCode } from './scalars.ts';
import { ServiceStatus } from './status.ts';

const c = initContract();

/** The region of the promised read interface: these five fields and no other. */
export const Region = z
  .strictObject({
    code: RegionCode,
    name: z.string().meta({ description: 'Name of the city', example: 'Frankfurt' }),
    zone: z
      .string()
      .regex(/^[a-z]+-[a-z]+$/, 'must be two words in lower case, such as europe-central')
      .meta({ description: 'Geographic area and direction', example: 'europe-central' }),
    country: z
      .string()
      .regex(/^[A-Z]{2}$/, 'must be two capital letters, such as DE')
      .meta({ description: 'ISO 3166-1 alpha-2', example: 'DE' }),
    status: ServiceStatus,
  })
  .meta({ id: 'Region' });
export type Region = z.infer<typeof Region>;

export const RegionList = listOf(Region).meta({ id: 'RegionList' });
export type RegionList = z.infer<typeof RegionList>;

export const regionsRoutes = c.router({
  list: {
    method: 'GET',
    path: '/regions',
    summary: 'List regions',
    description: 'Points of presence and their measured state.',
    responses: { ...commonProblems, 200: RegionList },
    metadata: { cacheControl: 'public, max-age=300', query: [] },
  },
});
