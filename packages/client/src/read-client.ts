import type { AssetList, api, FormatList, Media, RegionList, RenditionList, Status, VersionIndex } from '@mds/contract';
import { type PagePromise, pagePromise } from './page.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** Options of a list with pages. */
export interface ListOptions extends RequestOptions {
  /** Items per page, 1 to 100; the service's default is 25. */
  limit?: number | undefined;
  /** `next_cursor` of an earlier page. */
  cursor?: string | undefined;
}

/** Options of the list of assets. */
export interface AssetListOptions extends RequestOptions {
  /** Number of assets, 1 to 100; the service's default is 25. */
  limit?: number | undefined;
  /** Only assets of the region with this code; by default of all regions. */
  region?: string | undefined;
}

/**
 * The public read API: needs no token and never sends one. Requests are repeated after a connection error, 429, 502, 503 and 504. Throws
 * {@link ApiError} and its subclasses, {@link ConnectionError}, {@link TimeoutError}, or the signal's reason.
 */
export interface ReadClient {
  media: {
    /** Media of the project, newest first. Await it for a page; `for await` goes through all pages. */
    list(options?: ListOptions): PagePromise<Media>;
  };
  regions: {
    /** Points of presence with their state. */
    list(options?: RequestOptions): Promise<RegionList>;
  };
  assets: {
    /** Recently requested assets, latest first, each with the cache status of its region. */
    list(options?: AssetListOptions): Promise<AssetList>;
  };
  formats: {
    /** Formats accepted on ingest. */
    list(options?: RequestOptions): Promise<FormatList>;
  };
  renditions: {
    /** The presets that are applied to every media object. */
    list(options?: RequestOptions): Promise<RenditionList>;
  };
  /** The state of the service and its components. Resolves whatever the state is; throws only if the state is not available. */
  status(options?: RequestOptions): Promise<Status>;
  /** The version index and resource map. */
  index(options?: RequestOptions): Promise<VersionIndex>;
}

/** Makes the {@link ReadClient} over a transport. */
export function createReadClient(transport: Transport): ReadClient {
  return {
    media: {
      list: ({ limit, cursor, signal } = {}) =>
        pagePromise(
          (at) => transport.callJson('GET /api/v1/media', { query: { limit, cursor: at } }, { signal }),
          cursor,
        ),
    },
    regions: { list: ({ signal } = {}) => transport.callJson('GET /api/v1/regions', {}, { signal }) },
    assets: {
      list: ({ limit, region, signal } = {}) =>
        transport.callJson('GET /api/v1/assets', { query: { limit, region } }, { signal }),
    },
    formats: { list: ({ signal } = {}) => transport.callJson('GET /api/v1/formats', {}, { signal }) },
    renditions: { list: ({ signal } = {}) => transport.callJson('GET /api/v1/renditions', {}, { signal }) },
    status: ({ signal } = {}) => transport.callJson('GET /api/v1/status', {}, { signal }),
    index: ({ signal } = {}) => transport.callJson('GET /api/v1', {}, { signal }),
  } satisfies ReadClient & Record<keyof typeof api.read, unknown>;
}
