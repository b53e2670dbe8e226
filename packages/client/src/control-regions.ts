import type { RegionChange, RegionDetail, RegionDetailList } from '@mds/contract';
import { unlessGone } from './retry.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** The result of writing a region. */
export interface WrittenRegion {
  region: RegionDetail;
  /** False if the region was already known and was changed. */
  created: boolean;
}

/** The operator's methods for regions. `client.regions.list` is the public list. */
export interface ControlRegions {
  /** Every known region with its nodes, including regions that no node serves. */
  list(options?: RequestOptions): Promise<RegionDetailList>;
  /**
   * A region in detail.
   * @throws NotFoundError if it is unknown
   */
  get(code: string, options?: RequestOptions): Promise<RegionDetail>;
  /**
   * Adds or changes a region; omitted fields stay as they are. A city of the built-in catalogue needs only its code, any other its
   * name, zone and country. `null` restores the catalogue's value. `maintenance` shows in the public list at once.
   * @throws InvalidRequestError if the city is not in the catalogue and a field is missing
   */
  put(code: string, change?: RegionChange, options?: RequestOptions): Promise<WrittenRegion>;
  /**
   * Forgets a region, its silent nodes and its asset records.
   * @throws ConflictError while a node serves it; NotFoundError if it is unknown
   */
  delete(code: string, options?: RequestOptions): Promise<void>;
  /**
   * Forgets a silent node, so that its region and the results of purges no longer include it. The node returns with its next report.
   * @throws ConflictError while the node is alive; NotFoundError if it is unknown
   */
  forgetNode(id: string, options?: RequestOptions): Promise<void>;
}

/** Makes {@link ControlRegions} over a transport. */
export function createControlRegions(transport: Transport): ControlRegions {
  return {
    list: ({ signal } = {}) => transport.callJson('GET /control/v1/regions', {}, { signal }),
    get: (code, { signal } = {}) =>
      transport.callJson('GET /control/v1/regions/:code', { params: { code } }, { signal }),
    put: async (code, change = {}, { signal } = {}) => {
      const request = { params: { code }, body: change };
      const answer = await transport.call('PUT /control/v1/regions/:code', request, { signal });
      return { region: answer.body, created: answer.status === 201 };
    },
    delete: (code, { signal } = {}) =>
      unlessGone('region_not_found', () =>
        transport.call('DELETE /control/v1/regions/:code', { params: { code } }, { signal }),
      ),
    forgetNode: (node, { signal } = {}) =>
      unlessGone('node_not_found', () =>
        transport.call('DELETE /control/v1/nodes/:node', { params: { node } }, { signal }),
      ),
  };
}
