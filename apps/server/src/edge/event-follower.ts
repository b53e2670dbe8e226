import type { IncomingMessage } from 'node:http';
import { CONTROL_API_PREFIX, EdgeEvent } from '@mds/contract';
import { z } from 'zod';
import type { Logger } from '../base/logger.ts';
import { errorFields, OriginUnavailableError } from '../delivery/object-origin.ts';
import { readEventBlocks } from './event-blocks.ts';
import type { OriginConnection } from './origin-connection.ts';
import { OriginRefusesError } from './origin-standing.ts';
import type { StateFile } from './state-file.ts';

/** How far a node has followed the events of which origin. */
export const EventPosition = z.strictObject({ origin: z.string(), through: z.string().regex(/^\d{1,15}$/) });
export type EventPosition = z.infer<typeof EventPosition>;

/** What is to be done about events. */
export interface EventActions {
  onEvent(event: EdgeEvent): void;
  /** Events may have been missed. @param missed.purge whether one of them may have been a purge of everything */
  onGap(missed: { purge: boolean }): void;
  /** Nothing is left that this node does not know of. */
  onUpToDate(): void;
}

/** Follows the events of the origin, over restarts of both. */
export interface EventFollower {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Whether every event up to now was heard: the connection stands, and nothing that it had to tell is left. */
  readonly isFollowing: boolean;
  /** Resolves when the first attempt has come to an end: the events are followed, or it is known that they are not. */
  readonly concluded: Promise<void>;
  /** Of the monotonic clock: when it was last known that every event was heard. Never yet: when this process began to follow. */
  readonly upToDateAtMs: number;
  /** The last event that was acted upon; null while none is known. */
  readonly through: string | null;
}

/** The origin sends something every 15 s; when nothing came for this long, the connection is dead, whatever the network says. */
const SILENCE_MS = 20_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
/** Of an answer that is no stream of events, so many pieces are read. */
const MAX_REFUSAL_PIECES = 16;
/** The position is written at most this often; events that are acted upon again do no harm. */
const SAVE_MS = 500;

export function createEventFollower(deps: {
  origin: OriginConnection;
  originUrl: string;
  region: string;
  actions: EventActions;
  position: StateFile<EventPosition>;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
}): EventFollower {
  const { origin, originUrl, region, actions, position, logger } = deps;
  const stopping = new AbortController();
  let through: string | null = null;
  let saved: string | null = null;
  let isFollowing = false;
  let upToDateAtMs = performance.now();
  let running: Promise<void> = Promise.resolve();
  let saving: NodeJS.Timeout | undefined;
  let wake: () => void = () => undefined;
  let told: string | null = null;
  let conclude: () => void = () => undefined;
  const concluded = new Promise<void>((resolve) => {
    conclude = resolve;
  });

  const save = async () => {
    saving = undefined;
    if (through === null || through === saved) return;
    const now = through;
    await position.write({ origin: originUrl, through: now });
    saved = now;
  };

  const advance = (id: string) => {
    if (id === through) return;
    through = id;
    saving ??= setTimeout(() => {
      // Without it, the next start has events told again.
      save().catch((error: unknown) => logger.warn({ err: error }, 'the position in the events could not be kept'));
    }, SAVE_MS).unref();
  };

  const act = (event: EdgeEvent) => {
    if (event.type !== 'reset') {
      actions.onEvent(event);
      return;
    }
    const { purged_everything: purged } = event.data;
    // Where the origin knows fewer events than this node has seen, they are those of another database.
    const isAnother = Number(event.id) < Number(through);
    actions.onGap({ purge: isAnother || (purged !== null && Number(purged) > Number(through)) });
  };

  const follow = async (answer: IncomingMessage) => {
    for await (const { id, data } of readEventBlocks(answer)) {
      if (stopping.signal.aborted) return;
      if (data !== null) {
        const event = EdgeEvent.safeParse(JSON.parse(data));
        // An event that only a newer version knows may concern anything.
        if (event.success) act(event.data);
        else actions.onGap({ purge: false });
      }
      if (id === null) continue;
      // With no position there is no telling what happened before.
      if (through === null) actions.onGap({ purge: true });
      advance(id);
      // An id alone: the reader is up to date.
      if (data !== null || isFollowing) continue;
      isFollowing = true;
      told = null;
      origin.standing.good();
      conclude();
      logger.info({ through: id }, 'the events of the origin are followed');
      actions.onUpToDate();
    }
  };

  const connect = async () => {
    const target = `${CONTROL_API_PREFIX}/edges/${region}/events`;
    const answer = await origin.send({
      target,
      headers: { accept: 'text/event-stream', ...(through === null ? {} : { 'last-event-id': through }) },
      signal: stopping.signal,
      silenceMs: SILENCE_MS,
    });
    const { statusCode: status = 0, headers } = answer;
    if (status !== 200 || !headers['content-type']?.startsWith('text/event-stream')) {
      const body = Buffer.concat(await answer.take(MAX_REFUSAL_PIECES).toArray());
      throw origin.standing.judge({ status, headers, body, target });
    }
    try {
      await follow(answer);
    } catch (error) {
      if (error !== answer.errored) throw error;
      throw new OriginUnavailableError('The stream of events broke off.', { cause: error });
    }
  };

  const run = async () => {
    let pauseMs = FIRST_PAUSE_MS;
    while (!stopping.signal.aborted) {
      try {
        await connect();
        pauseMs = FIRST_PAUSE_MS;
      } catch (error) {
        const said = error instanceof Error ? error.message : String(error);
        const isTold = said === told || error instanceof OriginRefusesError;
        if (!stopping.signal.aborted && !isTold) {
          logger.warn(errorFields(error), 'the events of the origin cannot be followed; that is tried again');
        }
        told = said;
      }
      conclude();
      if (isFollowing) {
        pauseMs = FIRST_PAUSE_MS;
        upToDateAtMs = performance.now();
      }
      isFollowing = false;
      if (stopping.signal.aborted) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pauseMs).unref();
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    }
  };

  return {
    async start() {
      const kept = await position.read();
      // Ids of another origin mean nothing here.
      through = saved = kept?.origin === originUrl ? kept.through : null;
      origin.onUp(() => wake());
      running = run();
    },

    async stop() {
      stopping.abort();
      wake();
      await running;
      clearTimeout(saving);
      await save();
    },

    concluded,
    get upToDateAtMs() {
      return isFollowing ? performance.now() : upToDateAtMs;
    },
    get isFollowing() {
      return isFollowing;
    },
    get through() {
      return through;
    },
  };
}
