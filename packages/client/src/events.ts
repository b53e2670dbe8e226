import type { Event, EventType } from '@mds/contract';
import { ApiError, apiError, ConnectionError, MdsError, TimeoutError } from './errors.ts';
import { createEventStreamParser, type EventStreamParser } from './event-stream.ts';
import { MAX_RETRY_AFTER_MS } from './retry.ts';
import { sleep } from './sleep.ts';
import { connectionErrorOf, type RequestOptions, type Transport } from './transport.ts';

/** Those events that are of the types `T`. */
export type EventOf<T extends EventType> = Event & { type: T };

/** Which events, and how to follow them. */
export interface EventsOptions<T extends EventType = EventType> extends RequestOptions {
  /** Begin after the event of this id; `0` begins with the oldest that is kept. Without it: with what happens next. */
  after?: string | undefined;
  /** Only events of these types; all otherwise, those of a newer service included. */
  types?: readonly T[] | undefined;
  /** Called whenever the connection stands: what happens from then on comes. */
  onOpen?: (() => void) | undefined;
  /** Called when the connection was lost, with the reason (null where the service ended it) and the pause before the next attempt. */
  onReconnect?: ((lost: { error: unknown; delayMs: number }) => void) | undefined;
  /**
   * Milliseconds without a byte after which a connection counts as lost; default 45,000. The service sends a comment every
   * 15 seconds, so that one of which nothing comes for longer is dead, whatever the network says.
   */
  silenceMs?: number | undefined;
}

const SILENCE_MS = 45_000;
const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 30_000;

/**
 * Follows the events of the service (server-sent events, WHATWG HTML, 9.2). A connection that breaks is made anew, after a
 * pause that grows with every attempt that comes to nothing, and goes on after the last event that came.
 * @throws what the first connection fails with; later what will not get better by trying again: 401, 403, 404 and the like;
 *   the signal's reason
 */
export async function* followEvents<T extends EventType = EventType>(
  transport: Transport,
  options: EventsOptions<T> = {},
): AsyncGenerator<EventOf<T>, void, undefined> {
  const { signal, types, onOpen, onReconnect } = options;
  const wanted: ReadonlySet<string> | null = types ? new Set(types) : null;
  let lastEventId = '';
  let connected = false;
  let pauseMs = FIRST_DELAY_MS;
  let failures = 0;

  for (;;) {
    let error: unknown = null;
    try {
      const response = await transport.open(
        'GET /control/v1/events',
        {
          // Where to go on is in the header once something came; the service would prefer it to `after` all the same.
          query: { after: lastEventId ? undefined : options.after },
          headers: { 'last-event-id': lastEventId || undefined },
        },
        // Attempts after the first connection are counted and spaced here.
        { signal, repeatable: !connected, headers: { accept: 'text/event-stream' } },
      );
      // 204 says: do not come back (WHATWG HTML, 9.2.3).
      if (response.status === 204) return;
      await checkType(response);
      connected = true;
      onOpen?.();
      const parser = createEventStreamParser(lastEventId);
      try {
        for await (const event of eventsIn(response, parser, options.silenceMs ?? SILENCE_MS)) {
          failures = 0;
          if (event !== null && (wanted === null || wanted.has(event.type))) yield event as EventOf<T>;
        }
      } finally {
        // Whatever came is not to come again, also where whoever asked is not interested in it.
        lastEventId = parser.lastEventId;
        pauseMs = parser.retryMs ?? pauseMs;
      }
    } catch (thrown) {
      if (signal?.aborted) throw signal.reason;
      if (!connected || !isPassing(thrown)) throw thrown;
      error = thrown;
    }
    signal?.throwIfAborted();
    const delayMs = reconnectDelayMs(error, pauseMs, failures++);
    onReconnect?.({ error, delayMs });
    await sleep(delayMs, signal);
  }
}

/** The events of one connection, null for every other sign of life. Ends with the connection. */
async function* eventsIn(
  response: Response,
  parser: EventStreamParser,
  silenceMs: number,
): AsyncGenerator<Event | null, void, undefined> {
  if (!response.body) return;
  const reader = response.body.getReader();
  // Removes a byte order mark, as the standard asks, and joins characters that two pieces share.
  const decoder = new TextDecoder();
  let silent = false;
  try {
    for (;;) {
      // Counts while waiting for bytes alone: whoever takes his time over an event is not the service being silent.
      const timer = setTimeout(() => {
        silent = true;
        // What closing a dead connection fails with tells nobody anything.
        reader.cancel().catch(() => undefined);
      }, silenceMs);
      const { done, value } = await reader
        .read()
        .catch((error: unknown) => {
          throw connectionErrorOf({ method: 'GET', url: response.url }, error);
        })
        .finally(() => clearTimeout(timer));
      if (silent) throw new TimeoutError(`The event stream was silent for ${silenceMs} ms`, silenceMs);
      // A message that is not complete by now never will be (9.2.6).
      if (done) return;
      yield null;
      for (const { data } of parser.push(decoder.decode(value, { stream: true }))) yield eventOf(data);
    }
  } finally {
    // One that broke says so once more on being closed; that was told already.
    await reader.cancel().catch(() => undefined);
  }
}

function eventOf(data: string): Event {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (error) {
    throw new MdsError('The event stream has a message that is not JSON', { cause: error });
  }
  if (typeof value !== 'object' || value === null || !('type' in value) || typeof value.type !== 'string') {
    throw new MdsError('The event stream has a message that is not an event');
  }
  // As with the routes of the contract, the shape is the service's promise, and a newer one may have more types.
  return value as Event;
}

async function checkType(response: Response): Promise<void> {
  const type = response.headers.get('content-type')?.split(';')[0]?.trim() ?? '';
  if (type.toLowerCase() === 'text/event-stream') return;
  await response.body?.cancel();
  throw apiError({
    method: 'GET',
    url: response.url,
    status: response.status,
    problem: null,
    requestId: response.headers.get('x-request-id'),
    retryAfterMs: null,
    reason: `expected an event stream, got ${type || 'a body without Content-Type'}; is this the address of the service?`,
  });
}

/** Whether it may be over by the next attempt. What the service said that cannot be read, it would say again. */
function isPassing(error: unknown): boolean {
  if (error instanceof ApiError) return error.status >= 500 || error.status === 429;
  return error instanceof ConnectionError || error instanceof TimeoutError;
}

function reconnectDelayMs(error: unknown, pauseMs: number, failures: number): number {
  const backoffMs = Math.min(LONGEST_DELAY_MS, pauseMs * 2 ** Math.min(failures, 16));
  const askedMs = error instanceof ApiError ? Math.min(error.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS) : 0;
  // Half of it is left to chance: all who listened to one service lose it in the same moment.
  return Math.round(askedMs + backoffMs * (0.5 + Math.random() / 2));
}
