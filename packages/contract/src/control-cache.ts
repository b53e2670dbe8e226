import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { controlProblems, problemResponse } from './problem.ts';
import { MediaId, RegionCode } from './scalars.ts';

const c = initContract();

/**
 * The content to purge from every cache: all of a media object, the content of one delivery path, or everything. No data is lost, because the
 * caches fetch again what is requested again.
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

/** The state of a purge on one node. */
export const PurgeReceipt = z
  .strictObject({
    region: RegionCode,
    node: z.string(),
    state: z.enum(['purged', 'pending', 'silent']).meta({
      description:
        '`purged`: the node has dropped the content. `pending`: the node is alive but did not confirm in time. `silent`: the node sends no heartbeats; it drops the content as soon as it reaches its origin again',
    }),
  })
  .meta({ id: 'PurgeReceipt' });
export type PurgeReceipt = z.infer<typeof PurgeReceipt>;

/** The result of a purge, with a receipt for each known node. */
export const PurgeResult = z
  .strictObject({
    object: z.literal('purge'),
    id: z.string().meta({ description: 'Id of the event that announces the purge to the nodes' }),
    complete: z.boolean().meta({ description: 'True if every node has dropped the content' }),
    receipts: z.array(PurgeReceipt).meta({ description: 'Ordered by region, then by node' }),
  })
  .meta({ id: 'PurgeResult' });
export type PurgeResult = z.infer<typeof PurgeResult>;

/** The operator's routes for caches. */
export const controlCacheRoutes = c.router({
  purge: {
    method: 'POST',
    path: '/cache/purge',
    summary: 'Purge every cache',
    description:
      'Drops content from every cache tier of every node in every region, and waits up to `wait` seconds for the nodes to confirm. Safe to repeat. Purging a path drops the objects that it resolves to, and nothing else of the media object. Returns 404 if the media object does not exist or the path resolves to nothing.',
    query: z.object({
      wait: z
        .union([z.number(), z.string().regex(/^\d{1,2}$/, 'must be a whole number of seconds')])
        .transform(Number)
        .pipe(z.int().min(0).max(30))
        .default(5)
        .meta({
          openapi: { type: 'integer', minimum: 0, maximum: 30, default: 5 },
          description: 'Seconds to wait for the nodes to confirm',
        }),
    }),
    body: Purge,
    responses: { ...controlProblems, 200: PurgeResult, 404: problemResponse },
    metadata: { scope: 'operate' },
  },
});
