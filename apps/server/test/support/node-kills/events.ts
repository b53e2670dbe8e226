import { createClient, type EventOf } from '@mds/client';
import type { EventType } from '@mds/contract';
import { type Random, seededRandom } from '../seeded-random.ts';
import { TOKEN } from '../several-nodes.ts';
import type { Fleet } from './fleet.ts';
import type { Ledger } from './ledger.ts';

type KeptEvent = Exclude<EventOf<EventType>, { type: 'media.progress' }>;

/** All events from the first one, from any running api. */
export interface FollowedEvents {
  readonly events: readonly KeptEvent[];
  readonly reconnects: number;
  /** Waits for the event with this number. */
  through(seq: number): Promise<void>;
  stop(): Promise<void>;
}

const BASE_URL = 'http://apis.test';

/** Follows the events with the client. Each connection goes to a running api, as with a balancer. */
export function followEvents(fleet: Fleet, random: Random = seededRandom(1)): FollowedEvents {
  const events: KeptEvent[] = [];
  const stopping = new AbortController();
  let reconnects = 0;
  const anApi = () => {
    const apis = fleet.up('api');
    return apis[Math.floor(random() * apis.length)]?.url ?? '';
  };
  const client = createClient({
    ...{ baseUrl: BASE_URL, token: TOKEN },
    fetch: (url, init) => fetch(url.replace(BASE_URL, anApi()), init),
  });
  const following = (async () => {
    const { signal } = stopping;
    const onReconnect = () => {
      reconnects += 1;
    };
    for await (const event of client.control.events({ after: '0', signal, onReconnect })) {
      if (event.type !== 'media.progress') events.push(event);
    }
  })().catch((error: unknown) => {
    if (!stopping.signal.aborted) throw error;
  });
  // `through` and `stop` report it.
  following.catch(() => undefined);

  return {
    events,
    get reconnects() {
      return reconnects;
    },
    async through(seq) {
      for (const deadline = Date.now() + 60_000; Date.now() < deadline; ) {
        if (Number(events.at(-1)?.id) >= seq) return;
        await Promise.race([following, new Promise((resolve) => setTimeout(resolve, 100))]);
      }
      throw new Error(`The events stand at ${events.at(-1)?.id} and not at ${seq}.`);
    },
    async stop() {
      stopping.abort(new Error('the test is over'));
      await following;
    },
  };
}

/**
 * Compares the received events with those in the database, and with the acknowledged media.
 * @param written numbers of all events
 * @returns what is wrong
 */
export function checkEvents(received: readonly KeptEvent[], written: ReadonlySet<number>, ledger: Ledger): string[] {
  const wrong: string[] = [];
  const seen = new Set<number>();
  let before = 0;
  for (const { id } of received) {
    const seq = Number(id);
    if (seq <= before) wrong.push(`event ${seq} came after ${before}`);
    if (!written.has(seq)) wrong.push(`event ${seq} was received and is not in the database`);
    seen.add(seq);
    before = Math.max(before, seq);
  }
  const missing = [...written].filter((seq) => !seen.has(seq) && seq <= before);
  if (missing.length > 0) wrong.push(`events ${missing.slice(0, 10).join(', ')} were not received`);

  const typesOf = new Map<string, string[]>();
  for (const { type, data } of received) {
    if (!type.startsWith('media.') || !('id' in data)) continue;
    typesOf.set(data.id, [...(typesOf.get(data.id) ?? []), type]);
  }
  for (const { mediaId, isLeaving, deletedAtMs } of ledger.entries) {
    if (mediaId === null) continue;
    const types = typesOf.get(mediaId) ?? [];
    const count = (type: string) => types.filter((each) => each === type).length;
    if (types[0] !== 'media.created' || count('media.created') !== 1) wrong.push(`${mediaId} was created: ${types}`);
    if (!isLeaving && (types.at(-1) !== 'media.ready' || count('media.ready') !== 1)) {
      wrong.push(`${mediaId} is ready: ${types}`);
    }
    if (deletedAtMs !== null && (types.at(-1) !== 'media.deleted' || count('media.deleted') !== 1)) {
      wrong.push(`${mediaId} was deleted: ${types}`);
    }
  }
  return wrong;
}
