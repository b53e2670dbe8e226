import type { IncomingMessage } from 'node:http';
import { CONTROL_API_PREFIX, EdgeEvent, type EdgeReset } from '@mds/contract';
import { z } from 'zod';
import type { Logger } from '../base/logger.ts';
import { errorFields, OriginUnavailableError } from '../delivery/object-origin.ts';
import { readEventBlocks } from './event-blocks.ts';
import { OriginRefusesError } from './origin-acceptance.ts';
import type { OriginConnection } from './origin-connection.ts';
import type { StateFile } from './state-file.ts';

/** The last event that a node acted upon, and the origin that sent it. */
export const EventPosition = z.strictObject({ origin: z.string(), through: z.string().regex(/^\d{1,15}$/) });
export type EventPosition = z.infer<typeof EventPosition>;

/** Acts upon events. */
export interface EventActions {
  onEvent(event: EdgeEvent): void;
  /** Events may be missing. @param missed.purge whether one of them may have been a purge of everything */
  onGap(missed: { purge: boolean }): void;
  /** Every event up to now was received. */
  onUpToDate(): void;
}

/** Follows the events of the origin, across restarts of both. */
export interface EventFollower {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Whether every event up to now was received, and the connection is open. */
  readonly isFollowing: boolean;
  /** Resolves when the first attempt has succeeded or failed. */
  readonly concluded: Promise<void>;
  /** When every event was last known to be received, on the monotonic clock; before that, when this process started. */
  readonly upToDateAtMs: number;
  /** The last event that was acted upon; null: unknown. */
  readonly through: string | null;
}

/** The origin sends a heartbeat every 15 s; without one for this long, the connection is dead. */
const SILENCE_MS = 20_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;
/** Pieces that are read of an answer that is no event stream. */
const MAX_REFUSAL_PIECES = 16;
/** The position is written at most this often. Acting upon an event again does no harm. */
const SAVE_MS = 500;

/** Makes an {@link EventFollower}. */
export function createEventFollower(deps: {
  origin: OriginConnection;
  originUrl: string;
  region: string;
  actions: EventActions;
  position: StateFile<EventPosition>;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
}): EventFollower {
  const { origin, region, actions, logger } = deps;
  const position = createSavedPosition(deps.position, deps.originUrl, logger);
  const stopping = new AbortController();
  let isFollowing = false;
  let upToDateAtMs = performance.now();
  let running: Promise<void> = Promise.resolve();
  let wake: () => void = () => undefined;
  let logged: string | null = null;
  let conclude: () => void = () => undefined;
  const concluded = new Promise<void>((resolve) => {
    conclude = resolve;
  });

  const act = (event: EdgeEvent) => {
    if (event.type === 'reset') actions.onGap({ purge: mayMissPurge(event, position.through) });
    else actions.onEvent(event);
  };

  const follow = async (answer: IncomingMessage) => {
    for await (const { id, data } of readEventBlocks(answer)) {
      if (stopping.signal.aborted) return;
      if (data !== null) {
        const event = EdgeEvent.safeParse(JSON.parse(data));
        // An event of a newer version may concern anything.
        if (event.success) act(event.data);
        else actions.onGap({ purge: false });
      }
      if (id === null) continue;
      // Without a position, earlier events may have been missed.
      if (position.through === null) actions.onGap({ purge: true });
      position.advance(id);
      // An id without data means that the reader is up to date.
      if (data !== null || isFollowing) continue;
      isFollowing = true;
      logged = null;
      origin.acceptance.noteAccepted();
      conclude();
      logger.info({ through: id }, 'following the events of the origin');
      actions.onUpToDate();
    }
  };

  const connect = async () => {
    const answer = await openStream(origin, { region, through: position.through, signal: stopping.signal });
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
        const reason = error instanceof Error ? error.message : String(error);
        const isLogged = reason === logged || error instanceof OriginRefusesError;
        if (!stopping.signal.aborted && !isLogged) {
          logger.warn(errorFields(error), 'events of the origin cannot be followed; retrying');
        }
        logged = reason;
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
      await position.load();
      origin.onUp(() => wake());
      running = run();
    },

    async stop() {
      stopping.abort();
      wake();
      await running;
      await position.flush();
    },

    concluded,
    get upToDateAtMs() {
      return isFollowing ? performance.now() : upToDateAtMs;
    },
    get isFollowing() {
      return isFollowing;
    },
    get through() {
      return position.through;
    },
  };
}

/** The position of this node, and its file, which is written a little later. */
function createSavedPosition(file: StateFile<EventPosition>, originUrl: string, logger: Pick<Logger, 'warn'>) {
  let through: string | null = null;
  let saved: string | null = null;
  let saving: NodeJS.Timeout | undefined;

  const save = async () => {
    saving = undefined;
    if (through === null || through === saved) return;
    const now = through;
    await file.write({ origin: originUrl, through: now });
    saved = now;
  };

  return {
    async load() {
      const stored = await file.read();
      // Ids of another origin have no meaning here.
      through = saved = stored?.origin === originUrl ? stored.through : null;
    },

    advance(id: string) {
      if (id === through) return;
      through = id;
      saving ??= setTimeout(() => {
        // If it is missing, the next start receives some events again.
        save().catch((error: unknown) => logger.warn({ err: error }, 'event position could not be saved'));
      }, SAVE_MS).unref();
    },

    /** Writes it now. */
    async flush() {
      clearTimeout(saving);
      await save();
    },

    get through() {
      return through;
    },
  };
}

/** Whether events that are gone may include a purge of everything. */
function mayMissPurge({ id, data }: EdgeReset, through: string | null): boolean {
  // If the origin has fewer events than this node has seen, it has another database.
  if (Number(id) < Number(through)) return true;
  return data.purged_everything !== null && Number(data.purged_everything) > Number(through);
}

/** @throws OriginUnavailableError if the origin does not send the stream */
async function openStream(
  origin: OriginConnection,
  { region, through, signal }: { region: string; through: string | null; signal: AbortSignal },
): Promise<IncomingMessage> {
  const target = `${CONTROL_API_PREFIX}/edges/${region}/events`;
  const answer = await origin.send({
    target,
    headers: { accept: 'text/event-stream', ...(through === null ? {} : { 'last-event-id': through }) },
    signal,
    silenceMs: SILENCE_MS,
  });
  const { statusCode: status = 0, headers } = answer;
  if (status === 200 && headers['content-type']?.startsWith('text/event-stream')) return answer;
  const body = Buffer.concat(await answer.take(MAX_REFUSAL_PIECES).toArray());
  throw origin.acceptance.noteUnexpected({ status, headers, body, target });
}
