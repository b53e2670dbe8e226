import { createAddressFilter } from './address-filter.ts';
import { createGuardedConnector, type Lookup, systemLookup } from './guarded-connector.ts';
import { createHttpSource, type HttpSource, type HttpSourceParts } from './http-source.ts';

export interface WebParts {
  /** Ranges, addresses and names that are permitted although they are not public. */
  allow: readonly string[];
  /** Default: like the system. */
  lookup?: Lookup;
  firstByteMs?: HttpSourceParts['firstByteMs'];
}

/** The web, restricted to what the service may connect to. */
export function createWeb({ allow, lookup, firstByteMs }: WebParts): HttpSource {
  const filter = createAddressFilter(allow);
  const connect = createGuardedConnector(filter, lookup ?? systemLookup);
  return createHttpSource({ connect, ...(firstByteMs === undefined ? {} : { firstByteMs }) });
}
