import { cityCatalogue, findCity } from './city-catalogue.ts';
import type { RegionIdentity } from './region-identity.ts';

/** A region setting that names no known place. The message lists the valid forms. */
export class UnknownRegionError extends Error {
  constructor(setting: string) {
    const codes = cityCatalogue.map(({ code }) => code).sort();
    super(
      `there is no city ${setting} in the catalogue. Use one of ${codes.join(', ')}, or describe your own as ` +
        'code:City:area-direction:CC, for example ham1:Hamburg:europe-north:DE.',
    );
    this.name = 'UnknownRegionError';
  }
}

/**
 * The place that the setting `MDS_REGION` names.
 * @param setting a code of the city catalogue, or `code:City:area-direction:CC`
 * @throws UnknownRegionError for anything else
 */
export function resolveRegion(setting: string): RegionIdentity {
  const custom = /^([a-z]{2,8}[0-9]):([^:]{1,64}):([a-z]+-[a-z]+):([A-Z]{2})$/.exec(setting);
  if (custom) {
    const [, code = '', name = '', zone = '', country = ''] = custom;
    return { code, name, zone, country };
  }
  const city = findCity(setting);
  if (!city) throw new UnknownRegionError(setting);
  return city;
}
