import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { controlProblems, problemResponse } from './problem.ts';
import { Region } from './regions.ts';
import { listOf, NodeId, RegionCode, Timestamp } from './scalars.ts';
import { ServiceStatus } from './status.ts';

const c = initContract();

/** A process that serves a region, as its heartbeats tell of it. */
export const RegionNode = z
  .strictObject({
    id: z.string().meta({ description: 'Name of the node, stable over its restarts', example: 'edge-7:4f1c9a02' }),
    alive: z.boolean().meta({ description: 'False once three heartbeats in a row did not come' }),
    last_seen_at: Timestamp,
  })
  .meta({ id: 'RegionNode' });
export type RegionNode = z.infer<typeof RegionNode>;

/** A region as its operator sees it: also one that nobody serves, and by whom it is served. */
export const RegionDetail = Region.extend({
  status: ServiceStatus.nullable().meta({
    description: 'Null while no node serves the region; then it is not listed publicly',
  }),
  maintenance: z
    .boolean()
    .meta({ description: 'Set by an operator; shows as `under_maintenance`, whatever is measured' }),
  nodes: z.array(RegionNode),
}).meta({ id: 'RegionDetail' });
export type RegionDetail = z.infer<typeof RegionDetail>;

export const RegionDetailList = listOf(RegionDetail).meta({ id: 'RegionDetailList' });
export type RegionDetailList = z.infer<typeof RegionDetailList>;

const FROM_CATALOGUE = { description: 'Null: as the built-in catalogue has it' };

/**
 * What to write of a region. Name, zone and country can be left out of a city of the built-in catalogue, and where they are known; null
 * takes back what was written of them.
 */
export const RegionChange = z
  .strictObject({
    name: Region.shape.name.min(1).max(64).nullable().optional().meta(FROM_CATALOGUE),
    zone: Region.shape.zone.nullable().optional().meta(FROM_CATALOGUE),
    country: Region.shape.country.nullable().optional().meta(FROM_CATALOGUE),
    maintenance: z.boolean().optional(),
  })
  .meta({ id: 'RegionChange' });
export type RegionChange = z.infer<typeof RegionChange>;

const regionPath = z.object({ code: RegionCode });

/** The operator's routes for regions. */
export const controlRegionsRoutes = c.router({
  list: {
    method: 'GET',
    path: '/regions',
    summary: 'List regions in detail',
    description: 'Every region that is known, served or not, with its nodes.',
    responses: { ...controlProblems, 200: RegionDetailList },
    metadata: { scope: 'ingest' },
  },
  get: {
    method: 'GET',
    path: '/regions/:code',
    pathParams: regionPath,
    summary: 'A region in detail',
    responses: { ...controlProblems, 200: RegionDetail, 404: problemResponse },
    metadata: { scope: 'ingest' },
  },
  put: {
    method: 'PUT',
    path: '/regions/:code',
    pathParams: regionPath,
    summary: 'Add a region, or change what is known of it',
    description:
      'Adds a city of the built-in catalogue by its code alone, or any other with name, zone and country. `maintenance` shows in the public list at once.',
    body: RegionChange,
    responses: { ...controlProblems, 200: RegionDetail, 201: RegionDetail },
    metadata: { scope: 'operate' },
  },
  delete: {
    method: 'DELETE',
    path: '/regions/:code',
    pathParams: regionPath,
    summary: 'Forget a region',
    description: 'The region, its silent nodes and its asset records. 409 while a node serves it: stop that first.',
    responses: { ...controlProblems, 204: c.noBody(), 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
  forgetNode: {
    method: 'DELETE',
    path: '/nodes/:node',
    pathParams: z.object({ node: NodeId }),
    summary: 'Forget a node that is silent',
    description:
      'Its region and the receipts of purges do not wait for it any more. It is back with its next report, and drops first what was purged meanwhile. 409 while it lives: one that is stopped leaves by itself.',
    responses: { ...controlProblems, 204: c.noBody(), 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
});
