import type { AssetList, api, FormatList, Media, RegionList, RenditionList, Status, VersionIndex } from '@mds/contract';
import { type PagePromise, pagePromise } from './page.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** Which page of a list. */
export interface ListOptions extends RequestOptions {
  /** Items of one page, 1 to 100; the service's default is 25. */
  limit?: number | undefined;
  /** Cursor of an earlier page's `next_cursor`. */
  cursor?: string | undefined;
}

/** Which assets. */
export interface AssetListOptions extends RequestOptions {
  /** How many, 1 to 100; the service's default is 25. */
  limit?: number | undefined;
  /** Only those of this region's code; all regions otherwise. */
  region?: string | undefined;
}

/**
 * The public read API: needs no token and never sends one. Everything is tried again after a connection error, 429, 502,
 * 503 and 504. Throws {@link ApiError} and its kin, {@link ConnectionError}, {@link TimeoutError}, or the signal's reason.
 */
export interface ReadClient {
  media: {
    /** Media of the project, newest first. Await it for a page; `for await` goes through all pages. */
    list(options?: ListOptions): PagePromise<Media>;
  };
  regions: {
    /** Points of presence and their state. */
    list(options?: RequestOptions): Promise<RegionList>;
  };
  assets: {
    /** What was requested lately, latest first, and how the cache of its region answered. */
    list(options?: AssetListOptions): Promise<AssetList>;
  };
  formats: {
    /** What is accepted on ingest. */
    list(options?: RequestOptions): Promise<FormatList>;
  };
  renditions: {
    /** The presets: what is made of every media object. */
    list(options?: RequestOptions): Promise<RenditionList>;
  };
  /** The state of the service and its parts. Resolves whatever it says; throws only where nothing could be learned. */
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
