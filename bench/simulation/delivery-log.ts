import type { OwnedObject } from '../../apps/server/src/delivery/verified-body.ts';
import { createRandom } from '../pictures/painters/noise.mjs';
import type { Catalogue, CataloguedMedia } from './catalogue.ts';
import type { PopularObject } from './lru-theory.ts';
import { createZipf } from './zipf.ts';

/** The demand: which clients request which media. */
export interface Demand {
  readonly seed: number;
  /** The Zipf exponent. */
  readonly alpha: number;
  /** The number of media at any one time. */
  readonly media: number;
  readonly requests: number;
  /** Points of presence; each gets an equal share of the requests. */
  readonly edges: number;
  /** The share of a region's requests that follow its own order of popularity, 0 to 1; the others follow a common one. */
  readonly regional: number;
  /** New media per 1,000,000 requests. Each replaces a media object drawn uniformly, which is not requested any more. */
  readonly arrivals: number;
  /** Purges per 1,000,000 requests, of media drawn as requests are. */
  readonly purges: number;
}

/** One entry of the log. */
export type LogEntry =
  | { readonly kind: 'request'; readonly edge: number; readonly owned: OwnedObject }
  | { readonly kind: 'purge'; readonly mediaId: string };

/** A delivery log, the same in every run for the same demand. */
export interface DeliveryLog {
  entries(): Iterable<LogEntry>;
  /** Bytes of all media at the start. */
  readonly catalogueBytes: number;
  /** The objects that one edge is asked for, if the catalogue stays as at the start. */
  popularity(edge: number): PopularObject[];
}

/** Makes a {@link DeliveryLog}. @param catalogueOf must make the same media each time */
export function createDeliveryLog(demand: Demand, catalogueOf: () => Catalogue): DeliveryLog {
  const { seed, media, edges, regional } = demand;
  const zipf = createZipf(media, demand.alpha);
  // An order maps each rank to a place.
  const orders = Array.from({ length: edges }, (_, edge) => shuffled(media, seed * 1009 + edge));
  const placeOf = (edge: number, own: boolean, rank: number) => (own ? (orders[edge]?.[rank] ?? rank) : rank);
  const start = () => {
    const catalogue = catalogueOf();
    return { catalogue, places: Array.from({ length: media }, () => catalogue.next()) };
  };
  const first = start().places;

  return {
    *entries() {
      const random = createRandom(seed);
      const { catalogue, places } = start();
      const draw = (edge: number) => {
        const own = random() < regional;
        return places[placeOf(edge, own, zipf.draw(random()))] as CataloguedMedia;
      };
      for (let count = 0; count < demand.requests; count += 1) {
        if (random() < demand.arrivals / 1_000_000) places[Math.floor(random() * media)] = catalogue.next();
        const edge = Math.floor(random() * edges);
        if (random() < demand.purges / 1_000_000) yield { kind: 'purge', mediaId: draw(edge).id };
        yield { kind: 'request', edge, owned: draw(edge).pick(random()) };
      }
    },

    catalogueBytes: first.reduce((sum, { bytes }) => sum + bytes, 0),

    popularity(edge) {
      const shares = new Float64Array(media);
      for (let rank = 0; rank < media; rank += 1) {
        const share = zipf.probability(rank);
        for (const own of [true, false]) {
          const place = placeOf(edge, own, rank);
          shares[place] = (shares[place] ?? 0) + share * (own ? regional : 1 - regional);
        }
      }
      return first.flatMap(({ objects }, place) =>
        objects.map(({ object, weight }) => ({ bytes: object.bytes, probability: (shares[place] ?? 0) * weight })),
      );
    },
  };
}

/** The numbers from 0 to below `count` in an order that the seed decides (Fisher and Yates). */
function shuffled(count: number, seed: number): Uint32Array {
  const random = createRandom(seed);
  const order = Uint32Array.from({ length: count }, (_, index) => index);
  for (let index = count - 1; index > 0; index -= 1) {
    const other = Math.floor(random() * (index + 1));
    [order[index], order[other]] = [order[other] ?? 0, order[index] ?? 0];
  }
  return order;
}
