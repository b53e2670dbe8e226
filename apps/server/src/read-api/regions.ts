import type { Region, RegionList } from '@mds/contract';
import { api } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import type { Presented } from '../base/presented.ts';
import type { RegionMonitor, RegionState } from '../regions/region-monitor.ts';

function presentRegion(region: RegionState): Presented<Region> {
  return {
    code: region.code,
    name: region.name,
    zone: region.zone,
    country: region.country,
    status: region.status,
  };
}

/** `GET /api/v1/regions`: the points of presence and their measured state. */
export function createRegionHandlers(parts: { regionMonitor: Pick<RegionMonitor, 'states'> }) {
  return initServer().router(api.read.regions, {
    list: async () => {
      const regions = await parts.regionMonitor.states();
      const body: Presented<RegionList> = { object: 'list', data: regions.map(presentRegion) };
      return { status: 200, body };
    },
  });
}
