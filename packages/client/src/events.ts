import type { Event, EventType } from '@mds/contract';
import { ApiError, apiError, ConnectionError, MdsError, TimeoutError } from './errors.ts';
import { createEventStreamParser, type EventStreamParser } from './event-stream.ts';
import { MAX_RETRY_AFTER_MS } from './retry.ts';
import { sleep } from './sleep.ts';
import { connectionErrorOf, type RequestOptions, type Transport } from './transport.ts';

/** The events of the types `T`. */
export type EventOf<T extends EventType> = Event & { type: T };

/** Options for following events. */
export interface EventsOptions<T extends EventType = EventType> extends RequestOptions {
  /** Begin after the event with this id; `0` begins with the oldest stored event. By default, begin with the next event. */
  after?: string | undefined;
  /** Only events of these types; by default all, including types of a newer service. */
  types?: readonly T[] | undefined;
  /** Called whenever a connection is open: later events will arrive. */
  onOpen?: (() => void) | undefined;
  /** Called when the connection is lost, with the reason (null if the service ended it) and the pause before the next attempt. */
  onReconnect?: ((lost: { error: unknown; delayMs: number }) => void) | undefined;
  /**
   * Milliseconds without a byte after which a connection counts as lost; default 45,000. The service sends a comment every 15 seconds, so a
   * connection that is silent for longer is dead.
   */
  silenceMs?: number | undefined;
}

const SILENCE_MS = 45_000;
const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 30_000;

/**
 * Follows the events of the service (server-sent events, WHATWG HTML, 9.2). Reconnects after a broken connection, with a pause that grows
 * with every failed attempt, and continues after the last event received.
 * @throws any error of the first connection; later only errors that a retry does not fix, such as 401, 403 and 404; the signal's reason
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
          // After the first event, the header replaces `after`.
          query: { after: lastEventId ? undefined : options.after },
          headers: { 'last-event-id': lastEventId || undefined },
        },
        // After the first connection, this function spaces the attempts.
        { signal, repeatable: !connected, headers: { accept: 'text/event-stream' } },
      );
      // 204 means: do not reconnect (WHATWG HTML, 9.2.3).
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
        // Events that the caller did not ask for must not arrive again either.
        lastEventId = parser.lastEventId;
        pauseMs = parser.retryMs ?? pauseMs;
      }
    } catch (thrown) {
      if (signal?.aborted) throw signal.reason;
      if (!connected || !isTemporary(thrown)) throw thrown;
      error = thrown;
    }
    signal?.throwIfAborted();
    const delayMs = reconnectDelayMs(error, pauseMs, failures++);
    onReconnect?.({ error, delayMs });
    await sleep(delayMs, signal);
  }
}

/** The events of one connection, and null for every piece of data. Ends with the connection. */
async function* eventsIn(
  response: Response,
  parser: EventStreamParser,
  silenceMs: number,
): AsyncGenerator<Event | null, void, undefined> {
  if (!response.body) return;
  const reader = response.body.getReader();
  // The decoder removes a byte order mark and joins characters that are split over two pieces.
  const decoder = new TextDecoder();
  let silent = false;
  try {
    for (;;) {
      // The timer runs only while waiting for bytes, not while the caller handles an event.
      const timer = setTimeout(() => {
        silent = true;
        // An error on closing a dead connection has no value.
        reader.cancel().catch(() => undefined);
      }, silenceMs);
      const { done, value } = await reader
        .read()
        .catch((error: unknown) => {
          throw connectionErrorOf({ method: 'GET', url: response.url }, error);
        })
        .finally(() => clearTimeout(timer));
      if (silent) throw new TimeoutError(`The event stream was silent for ${silenceMs} ms`, silenceMs);
      // An incomplete message at the end is discarded (9.2.6).
      if (done) return;
      yield null;
      for (const { data } of parser.push(decoder.decode(value, { stream: true }))) yield eventOf(data);
    }
  } finally {
    // A broken connection fails again on closing; the first error was already thrown.
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
  // As with the routes of the contract, the service promises this shape; a newer one may have more types.
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

/** Whether another attempt may succeed. An answer that cannot be parsed would come again. */
function isTemporary(error: unknown): boolean {
  if (error instanceof ApiError) return error.status >= 500 || error.status === 429;
  return error instanceof ConnectionError || error instanceof TimeoutError;
}

function reconnectDelayMs(error: unknown, pauseMs: number, failures: number): number {
  const backoffMs = Math.min(LONGEST_DELAY_MS, pauseMs * 2 ** Math.min(failures, 16));
  const askedMs = error instanceof ApiError ? Math.min(error.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS) : 0;
  // Half of it is random: all readers of one service lose their connections at the same moment.
  return Math.round(askedMs + backoffMs * (0.5 + Math.random() / 2));
}
