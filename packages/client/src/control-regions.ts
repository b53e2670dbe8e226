import type { RegionChange, RegionDetail, RegionDetailList } from '@mds/contract';
import { unlessGone } from './retry.ts';
import type { RequestOptions, Transport } from './transport.ts';

/** What became of writing a region. */
export interface WrittenRegion {
  region: RegionDetail;
  /** False where the region was known already, and has been changed. */
  created: boolean;
}

/** The operator's part of the regions. `regions.list` of the client itself is the public list. */
export interface ControlRegions {
  /** Every region that is known, served or not, each with the nodes that serve it. */
  list(options?: RequestOptions): Promise<RegionDetailList>;
  /**
   * A region in detail.
   * @throws NotFoundError where it is not known
   */
  get(code: string, options?: RequestOptions): Promise<RegionDetail>;
  /**
   * Adds a region, or changes what is known of it; what is left out stays as it is. A city of the built-in catalogue needs
   * its code alone, any other its name, zone and country; `null` takes back what was written of one of them.
   * `maintenance` shows in the public list at once, whatever is measured.
   * @throws InvalidRequestError where the code is of no city of the catalogue and something of it is missing
   */
  put(code: string, change?: RegionChange, options?: RequestOptions): Promise<WrittenRegion>;
  /**
   * Forgets a region, its silent nodes and its asset records.
   * @throws ConflictError while a node serves it; NotFoundError where it is not known
   */
  delete(code: string, options?: RequestOptions): Promise<void>;
  /**
   * Forgets a node that is silent, so that its region and the receipts of purges do not wait for it any more. It is back with its
   * next report.
   * @throws ConflictError while it lives; NotFoundError where it is not known
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
