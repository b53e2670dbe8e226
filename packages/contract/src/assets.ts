import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { commonProblems } from './problem.ts';
import { AssetId, Limit, listOf, Timestamp } from './scalars.ts';

const c = initContract();

export const CacheStatus = z.enum(['HIT', 'MISS']);
export type CacheStatus = z.infer<typeof CacheStatus>;

/** The asset of the promised read interface: one record for each path and region. The latest request sets `cache_status`. */
export const Asset = z
  .strictObject({
    id: AssetId,
    created_at: Timestamp.meta({ description: 'Time of the first request for the path in its region' }),
    path: z.string().startsWith('/'),
    bytes: z.int().min(0).meta({ description: 'Size of the whole representation in bytes' }),
    cache_status: CacheStatus,
  })
  .meta({ id: 'Asset' });
export type Asset = z.infer<typeof Asset>;

export const AssetList = listOf(Asset).meta({ id: 'AssetList' });
export type AssetList = z.infer<typeof AssetList>;

export const assetsRoutes = c.router({
  list: {
    method: 'GET',
    path: '/assets',
    summary: 'List recently requested assets',
    description: 'Latest requests first, each with the cache status of its region.',
    query: z.object({
      limit: Limit,
      region: z.string().max(64).optional().meta({ description: 'Only assets of this region', example: 'fra1' }),
    }),
    responses: { ...commonProblems, 200: AssetList },
    metadata: { cacheControl: 'public, max-age=60', query: ['limit', 'region'] },
  },
});
