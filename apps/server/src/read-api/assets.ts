import type { Asset, AssetList } from '@mds/contract';
import { api } from '@mds/contract';
import { initServer } from '@ts-rest/express';
import { AppError } from '../base/app-error.ts';
import { type Presented, timestamp } from '../base/presented.ts';
import type { AssetRecord, AssetRepository, RegionRepository } from '../db/delivery-repository.ts';
import { findCity } from '../regions/city-catalogue.ts';

function presentAsset(asset: AssetRecord): Presented<Asset> {
  return {
    id: asset.id,
    created_at: timestamp(asset.createdAtMs),
    path: asset.path,
    bytes: asset.bytes,
    cache_status: asset.cacheStatus,
  };
}

/** `GET /api/v1/assets`: recently requested assets of one region or of all. */
export function createAssetHandlers(parts: {
  assets: Pick<AssetRepository, 'latest'>;
  regions: Pick<RegionRepository, 'find'>;
}) {
  const isRegion = async (code: string) => findCity(code) !== null || (await parts.regions.find(code)) !== null;

  return initServer().router(api.read.assets, {
    list: async ({ query: { limit, region } }) => {
      if (region !== undefined && !(await isRegion(region))) throw unknownRegion();
      const assets = await parts.assets.latest({ limit, region: region ?? null });
      const body: Presented<AssetList> = { object: 'list', data: assets.map(presentAsset) };
      return { status: 200, body };
    },
  });
}

function unknownRegion(): AppError {
  return new AppError(
    'unknown_region',
    'There is no region with this code. GET /api/v1/regions lists the active regions; omit region to get the assets of all.',
    { issues: [{ in: 'query', path: 'region', message: 'must be a region code such as fra1' }] },
  );
}
