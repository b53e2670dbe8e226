import {
  api,
  CONTROL_API_PREFIX,
  type ProblemIssue,
  type RegionChange,
  type RegionDetail,
  type RegionNode,
} from '@mds/contract';
import { initServer } from '@ts-rest/express';
import { AppError } from '../base/app-error.ts';
import { type Presented, timestamp } from '../base/presented.ts';
import type { RegionRecord, RegionRepository } from '../db/delivery-repository.ts';
import type { EventRepository } from '../db/event-repository.ts';
import { findCity } from '../regions/city-catalogue.ts';
import {
  HEARTBEAT_MS,
  MISSED_BEATS,
  type NodeState,
  type RegionMonitor,
  type RegionOverview,
} from '../regions/region-monitor.ts';
import { requireDeploymentOperator } from './authenticate.ts';

/** Parts of the region routes. */
export interface ControlRegionsParts {
  regions: Pick<RegionRepository, 'find' | 'put' | 'delete' | 'removeNode'>;
  regionMonitor: Pick<RegionMonitor, 'overview' | 'nodes'>;
  events: Pick<EventRepository, 'append'>;
  /** Updates the status document after a change. */
  regionsChanged(): Promise<void>;
}

/** The operator's routes under `/control/v1/regions`. Regions belong to the deployment, not to a project. */
export function createControlRegionsHandlers(parts: ControlRegionsParts) {
  const { regions } = parts;

  const findDetail = async (code: string): Promise<RegionOverview> => {
    const found = (await parts.regionMonitor.overview()).find((region) => region.code === code);
    if (!found) throw noSuchRegion(code);
    return found;
  };

  return initServer().router(api.control.regions, {
    list: async () => {
      const all = await parts.regionMonitor.overview();
      return { status: 200, body: { object: 'list' as const, data: all.map(presentDetail) } };
    },

    get: async ({ params: { code } }) => ({ status: 200, body: presentDetail(await findDetail(code)) }),

    put: async ({ params: { code }, body, req, res }) => {
      requireDeploymentOperator(req);
      const known = await regions.find(code);
      const region = applyChange({ code, known, change: body });
      await regions.put(region);
      if (region.maintenance !== (known?.maintenance ?? false)) {
        // No measured state changed, but caches of answers about regions must learn of it.
        const status = (await findDetail(code)).status ?? 'major_outage';
        await parts.events.append({ projectId: null, type: 'region.status_changed', data: { code, status } });
      }
      await parts.regionsChanged();
      if (!known) res.setHeader('Location', `${CONTROL_API_PREFIX}/regions/${code}`);
      return { status: known ? 200 : 201, body: presentDetail(await findDetail(code)) };
    },

    delete: async ({ params: { code }, req }) => {
      requireDeploymentOperator(req);
      const { nodes } = await findDetail(code);
      const alive = nodes.filter((node) => node.alive);
      if (alive.length > 0) {
        const names = alive.map(({ id }) => id).join(', ');
        throw new AppError('region_in_use', `The region ${code} is served by ${names}. Stop these nodes first.`);
      }
      if (!(await regions.delete(code))) throw noSuchRegion(code);
      await parts.regionsChanged();
      return { status: 204, body: undefined };
    },

    forgetNode: async ({ params: { node: id }, req }) => {
      requireDeploymentOperator(req);
      const node = (await parts.regionMonitor.nodes()).find((one) => one.id === id);
      if (!node) throw noSuchNode(id);
      // It would return with its next report, and a purge until then would not wait for it.
      if (node.alive) throw nodeAlive(node);
      await regions.removeNode(id);
      return { status: 204, body: undefined };
    },
  });
}

function presentDetail({
  code,
  name,
  zone,
  country,
  status,
  maintenance,
  nodes,
}: RegionOverview): Presented<RegionDetail> {
  return { code, name, zone, country, status, maintenance, nodes: nodes.map(presentNode) };
}

function presentNode({ id, alive, seenAtMs }: NodeState): Presented<RegionNode> {
  return { id, alive, last_seen_at: timestamp(seenAtMs) };
}

/** @throws AppError that names the missing fields of a city outside the catalogue */
function applyChange({
  code,
  known,
  change,
}: {
  code: string;
  known: RegionRecord | null;
  change: RegionChange;
}): RegionRecord {
  const city = findCity(code);
  const of = (field: 'name' | 'zone' | 'country') =>
    change[field] === null ? city?.[field] : (change[field] ?? known?.[field] ?? city?.[field]);
  const [name, zone, country] = [of('name'), of('zone'), of('country')];
  const maintenance = change.maintenance ?? known?.maintenance ?? false;
  if (name !== undefined && zone !== undefined && country !== undefined)
    return { code, name, zone, country, maintenance };
  const missing = Object.entries({ name, zone, country }).filter(([, value]) => value === undefined);
  const issues = missing.map(
    ([path]): ProblemIssue => ({
      in: 'body',
      path,
      message: 'is needed for a city that is not in the built-in catalogue',
    }),
  );
  throw new AppError(
    'invalid_request',
    `The built-in catalogue has no city ${code}. Describe it: {"name": "Hamburg", "zone": "europe-north", "country": "DE"}.`,
    { issues },
  );
}

function noSuchRegion(code: string): AppError {
  return new AppError(
    'region_not_found',
    `There is no region ${code}. PUT adds it; GET ${api.control.regions.list.path} lists the regions.`,
  );
}

function noSuchNode(id: string): AppError {
  return new AppError(
    'node_not_found',
    `There is no node ${id}. GET ${api.control.regions.list.path} lists the regions with their nodes.`,
  );
}

function nodeAlive({ id, region }: NodeState): AppError {
  return new AppError(
    'node_alive',
    `The node ${id} of ${region} is alive and cannot be forgotten. Stop it, and it leaves by itself. A node that was killed can be forgotten ${(HEARTBEAT_MS * MISSED_BEATS) / 1000} seconds after its last report.`,
  );
}
