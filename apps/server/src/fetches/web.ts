import { createAddressFilter } from './address-filter.ts';
import type { Lookup } from './guarded-connector.ts';
import type { HttpSource, HttpSourceParts } from './http-source.ts';

export interface WebParts {
  /** Ranges, addresses and names that may be connected to though they are not public. */
  allow: readonly string[];
  /** Default: as the system does. */
  lookup?: Lookup;
  firstByteMs?: HttpSourceParts['firstByteMs'];
}

/** The web as the service may see it. Its HTTP client is loaded when the first file is fetched: a start does not wait for it. */
export function createWeb({ allow, lookup, firstByteMs }: WebParts): HttpSource {
  const filter = createAddressFilter(allow);
  let loaded: Promise<HttpSource> | undefined;
  const load = async (): Promise<HttpSource> => {
    const [{ createGuardedConnector, systemLookup }, { createHttpSource }] = await Promise.all([
      import('./guarded-connector.ts'),
      import('./http-source.ts'),
    ]);
    const connect = createGuardedConnector(filter, lookup ?? systemLookup);
    return createHttpSource({ connect, ...(firstByteMs === undefined ? {} : { firstByteMs }) });
  };
  return {
    async read(url, options, use) {
      loaded ??= load();
      return (await loaded).read(url, options, use);
    },
  };
}
