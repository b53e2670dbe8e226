import type { IncomingMessage } from 'node:http';
import type { Purge, PurgeResult, RegionChange, RegionDetail } from '@mds/client';
import { type ScriptedService, sendJson, sendProblem, TOKEN } from './scripted-service.ts';

/** Regions and caches of a scripted service, as the contract has them. */
export interface ScriptedRegions {
  /** All known regions. */
  regions: RegionDetail[];
  /** The purges so far. */
  purges: Purge[];
  /** The answer to purges. */
  result: PurgeResult;
}

/** A node that was last seen `secondsAgo` seconds ago. */
export function node(id: string, secondsAgo: number): RegionDetail['nodes'][number] {
  const at = new Date(Date.now() - secondsAgo * 1000).toISOString().replace(/\.\d+Z$/, 'Z');
  return { id, alive: secondsAgo < 15, last_seen_at: at };
}

/** Two served regions, one of them with a silent node too, and one region that is not served. */
function someRegions(): RegionDetail[] {
  return [
    {
      ...{ code: 'fra1', name: 'Frankfurt', zone: 'europe-central', country: 'DE' },
      ...{ status: 'operational', maintenance: false, nodes: [node('origin:4f1c9a02', 2)] },
    },
    {
      ...{ code: 'ams1', name: 'Amsterdam', zone: 'europe-west', country: 'NL' },
      ...{ status: 'partial_outage', maintenance: false, nodes: [node('edge-1:a', 4), node('edge-2:b', 3700)] },
    },
    {
      ...{ code: 'sin1', name: 'Singapore', zone: 'asia-southeast', country: 'SG' },
      ...{ status: null, maintenance: false, nodes: [] },
    },
  ];
}

const CATALOGUE: Record<string, Pick<RegionDetail, 'name' | 'zone' | 'country'>> = {
  tyo1: { name: 'Tokyo', zone: 'asia-northeast', country: 'JP' },
};

/** Makes a scripted service answer for regions and caches. */
export function scriptRegions(service: ScriptedService): ScriptedRegions {
  const script: ScriptedRegions = {
    regions: someRegions(),
    purges: [],
    result: {
      object: 'purge',
      id: '42',
      complete: true,
      receipts: [
        { region: 'fra1', node: 'origin:4f1c9a02', state: 'purged' },
        { region: 'ams1', node: 'edge-1:a', state: 'purged' },
      ],
    },
  };
  const { regions } = script;
  service.on('GET /api/v1/regions', (_, response) => {
    const served = regions.filter(({ status }) => status !== null);
    sendJson(response, 200, { object: 'list', data: served.map(({ maintenance: _m, nodes: _n, ...rest }) => rest) });
  });
  for (const method of ['GET', 'PUT', 'DELETE']) {
    service.on(`${method} /control/v1/regions`, async (request, response) => {
      if (request.headers.authorization !== `Bearer ${TOKEN}`) return sendProblem(response, 401, 'unauthorized', 'No.');
      const code = /regions\/(.+)$/.exec(request.url ?? '')?.[1];
      if (code === undefined) return sendJson(response, 200, { object: 'list', data: regions });
      const index = regions.findIndex((region) => region.code === code);
      const found = regions[index];
      if (method === 'PUT') {
        const change = (await jsonOf(request)) as RegionChange;
        const known = found ?? { ...CATALOGUE[code], code, status: null, maintenance: false, nodes: [] };
        const back = Object.entries(change).filter(([, value]) => value === null);
        const city = { name: undefined, zone: undefined, country: undefined, ...CATALOGUE[code] };
        const region = { ...known, ...change, ...Object.fromEntries(back.map(([key]) => [key, city[key as 'name']])) };
        if (region.name === undefined || region.zone === undefined || region.country === undefined) {
          const errors = (['name', 'zone', 'country'] as const)
            .filter((path) => region[path] === undefined)
            .map((path) => ({ in: 'body' as const, path, message: 'is needed' }));
          return sendProblem(response, 400, 'invalid_request', `${code} is in no catalogue.`, errors);
        }
        if (region.maintenance && region.status !== null) region.status = 'under_maintenance';
        const written = region as RegionDetail;
        if (found) regions[index] = written;
        else regions.push(written);
        return sendJson(response, found ? 200 : 201, written);
      }
      if (!found) return sendProblem(response, 404, 'region_not_found', `There is no region ${code}.`);
      if (method === 'GET') return sendJson(response, 200, found);
      if (found.nodes.some(({ alive }) => alive)) {
        return sendProblem(response, 409, 'region_in_use', `A node serves ${code}: stop it first.`);
      }
      regions.splice(index, 1);
      response.writeHead(204).end();
    });
  }
  service.on('DELETE /control/v1/nodes', (request, response) => {
    const id = decodeURIComponent(/nodes\/(.+)$/.exec(request.url ?? '')?.[1] ?? '');
    const region = regions.find(({ nodes }) => nodes.some((one) => one.id === id));
    const found = region?.nodes.find((one) => one.id === id);
    if (!region || !found) return sendProblem(response, 404, 'node_not_found', `There is no node ${id}.`);
    if (found.alive) return sendProblem(response, 409, 'node_alive', `The node ${id} is alive.`);
    region.nodes.splice(region.nodes.indexOf(found), 1);
    response.writeHead(204).end();
  });
  service.on('POST /control/v1/cache/purge', async (request, response) => {
    if (request.headers.authorization !== `Bearer ${TOKEN}`) return sendProblem(response, 401, 'unauthorized', 'No.');
    script.purges.push((await jsonOf(request)) as Purge);
    sendJson(response, 200, script.result);
  });
  return script;
}

async function jsonOf(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const piece of request.setEncoding('utf8') as AsyncIterable<string>) text += piece;
  return JSON.parse(text);
}
