import { initContract } from '@ts-rest/core';
import { z } from 'zod';
import { controlProblems, problemResponse } from './problem.ts';
import { Region } from './regions.ts';
import { listOf, NodeId, RegionCode, Timestamp } from './scalars.ts';
import { ServiceStatus } from './status.ts';

const c = initContract();

/** A process that serves a region, as last reported by its heartbeats. */
export const RegionNode = z
  .strictObject({
    id: z.string().meta({ description: 'Name of the node, stable across restarts', example: 'edge-7:4f1c9a02' }),
    alive: z.boolean().meta({ description: 'False after three missed heartbeats in a row' }),
    last_seen_at: Timestamp,
  })
  .meta({ id: 'RegionNode' });
export type RegionNode = z.infer<typeof RegionNode>;

/** A region as its operator sees it, with its nodes; a region that no node serves is included. */
export const RegionDetail = Region.extend({
  status: ServiceStatus.nullable().meta({
    description: 'Null while no node serves the region; the public list then omits it',
  }),
  maintenance: z
    .boolean()
    .meta({ description: 'Set by an operator; the region then shows `under_maintenance`, whatever is measured' }),
  nodes: z.array(RegionNode),
}).meta({ id: 'RegionDetail' });
export type RegionDetail = z.infer<typeof RegionDetail>;

export const RegionDetailList = listOf(RegionDetail).meta({ id: 'RegionDetailList' });
export type RegionDetailList = z.infer<typeof RegionDetailList>;

const FROM_CATALOGUE = { description: 'Null restores the value of the built-in catalogue' };

/**
 * A change of a region. Name, zone and country may be omitted for a city of the built-in catalogue, and if they are already known.
 * Null restores the catalogue's value.
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
    description: 'Returns every known region with its nodes, including regions that no node serves.',
    responses: { ...controlProblems, 200: RegionDetailList },
    metadata: { scope: 'ingest' },
  },
  get: {
    method: 'GET',
    path: '/regions/:code',
    pathParams: regionPath,
    summary: 'Get a region in detail',
    responses: { ...controlProblems, 200: RegionDetail, 404: problemResponse },
    metadata: { scope: 'ingest' },
  },
  put: {
    method: 'PUT',
    path: '/regions/:code',
    pathParams: regionPath,
    summary: 'Add or change a region',
    description:
      'A city of the built-in catalogue needs only its code; any other needs name, zone and country. `maintenance` shows in the public list at once.',
    body: RegionChange,
    responses: { ...controlProblems, 200: RegionDetail, 201: RegionDetail },
    metadata: { scope: 'operate' },
  },
  delete: {
    method: 'DELETE',
    path: '/regions/:code',
    pathParams: regionPath,
    summary: 'Forget a region',
    description:
      'Removes the region, its silent nodes and its asset records. Returns 409 while a node serves the region: stop that node first.',
    responses: { ...controlProblems, 204: c.noBody(), 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
  forgetNode: {
    method: 'DELETE',
    path: '/nodes/:node',
    pathParams: z.object({ node: NodeId }),
    summary: 'Forget a silent node',
    description:
      'The region of the node and the results of purges no longer include it. The node returns with its next report, after it drops what was purged in the meantime. Returns 409 while the node is alive: a node that is stopped leaves by itself.',
    responses: { ...controlProblems, 204: c.noBody(), 404: problemResponse, 409: problemResponse },
    metadata: { scope: 'operate' },
  },
});
