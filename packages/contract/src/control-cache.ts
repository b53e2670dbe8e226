import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { controlProblems, problemResponse } from './problem.ts';
import { MediaId, RegionCode } from './scalars.ts';

const c = initContract();

/**
 * What to drop from every cache: all of a media object, what is at one delivery path, or everything. Nothing is lost by it: what is asked
 * for again is fetched again.
 */
export const Purge = z
  .union(
    [
      z.strictObject({ media_id: MediaId }),
      z.strictObject({ path: z.string().regex(/^\/media\//, 'must be a delivery path, beginning with /media/') }),
      z.strictObject({ everything: z.literal(true) }),
    ],
    'must be one of {"media_id": "med_…"}, {"path": "/media/…"} and {"everything": true}',
  )
  .meta({ id: 'Purge' });
export type Purge = z.infer<typeof Purge>;

/** What one node of a region made of a purge. */
export const PurgeReceipt = z
  .strictObject({
    region: RegionCode,
    node: z.string(),
    state: z.enum(['purged', 'pending', 'silent']).meta({
      description:
        '`purged`: the node has dropped it. `pending`: it lives, but has not said so in time. `silent`: its heartbeats stay away; it drops it as soon as it hears from its origin again',
    }),
  })
  .meta({ id: 'PurgeReceipt' });
export type PurgeReceipt = z.infer<typeof PurgeReceipt>;

/** The receipt of a purge: one entry for each node that is known. */
export const PurgeResult = z
  .strictObject({
    object: z.literal('purge'),
    id: z.string().meta({ description: 'The event that told the nodes' }),
    complete: z.boolean().meta({ description: 'Whether every node has dropped it' }),
    receipts: z.array(PurgeReceipt).meta({ description: 'By region, and by node within it' }),
  })
  .meta({ id: 'PurgeResult' });
export type PurgeResult = z.infer<typeof PurgeResult>;

/** The operator's route for caches. */
export const controlCacheRoutes = c.router({
  purge: {
    method: 'POST',
    path: '/cache/purge',
    summary: 'Drop something from every cache',
    description:
      'Reaches every tier of every node in every region, and waits up to `wait` seconds for them to say so. Safe to repeat. Of a path, the objects that it stands for are dropped, and nothing else of their medium. 404 for a media object that does not exist, and for a path that stands for nothing.',
    query: z.object({
      wait: z
        .union([z.number(), z.string().regex(/^\d{1,2}$/, 'must be a whole number of seconds')])
        .transform(Number)
        .pipe(z.int().min(0).max(30))
        .default(5)
        .meta({
          openapi: { type: 'integer', minimum: 0, maximum: 30, default: 5 },
          description: 'Seconds to wait for the nodes',
        }),
    }),
    body: Purge,
    responses: { ...controlProblems, 200: PurgeResult, 404: problemResponse },
    metadata: { scope: 'operate' },
  },
});
