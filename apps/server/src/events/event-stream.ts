import type { ServerResponse } from 'node:http';
import type { EdgeReset, Event } from '@mds/contract';
import type { Logger } from '../base/logger.ts';
import { timestamp } from '../base/presented.ts';
import type { EventRecord, EventRepository } from '../db/event-repository.ts';
import type { JobQueue } from '../db/job-queue.ts';
import { createEventPolling } from './event-polling.ts';

export interface EventStreamParts {
  events: EventRepository;
  jobs: Pick<JobQueue, 'underWay'>;
  logger: Pick<Logger, 'warn' | 'error'>;
  timing?: Partial<EventStreamTiming>;
  /** Bytes that a listener may leave unread before it is cut off. */
  maxUnreadBytes?: number;
}

/** In milliseconds. */
export interface EventStreamTiming {
  /** Between two reads of events that other processes have written, while there are listeners. */
  pollMs: number;
  /** Between two comments that keep a quiet connection alive. */
  heartbeatMs: number;
  /** A reader that catches up must read a page within this time. */
  stallMs: number;
}

/** Sends events to listeners, as server-sent events (WHATWG HTML, 9.2). */
export interface EventStream {
  start(): Promise<void>;
  /**
   * Answers with the events of a project, and those of the deployment, that follow `after`; null: from now on. An id without data means
   * that the reader is up to date; it continues from that id if the connection breaks. The answer ends when its reader leaves or does
   * not keep up, or when the stream stops.
   * @param reader.projectId null: events of all projects, and `reset` if events after `after` are no longer stored
   */
  serve(response: ServerResponse, reader: { projectId: string | null; after: number | null }): void;
  /** Ends every answer. */
  stop(): Promise<void>;
  readonly listeners: number;
}

const TIMING: EventStreamTiming = { pollMs: 150, heartbeatMs: 15_000, stallMs: 30_000 };
const MAX_UNREAD_BYTES = 1024 * 1024;
/** Events that are read from the database at a time. */
const PAGE = 500;
/** Readers whose connection breaks reconnect after this time. */
const RECONNECT_MS = 2_000;

interface Listener {
  response: ServerResponse;
  /** Null: all projects, without the progress of their jobs. */
  projectId: string | null;
  /** False while it catches up. */
  live: boolean;
  /** The last event that was sent to it, or that does not concern it. */
  seq: number;
}

/** {@link EventStream}: each event is read from the database and serialized once for all listeners. */
export function createEventStream(parts: EventStreamParts): EventStream {
  const { events, logger, maxUnreadBytes = MAX_UNREAD_BYTES } = parts;
  const timing = { ...TIMING, ...parts.timing };
  const listeners = new Set<Listener>();
  let heartbeat: NodeJS.Timeout | undefined;
  let stopped = false;

  const cut = (listener: Listener) => {
    listeners.delete(listener);
    listener.response.destroy();
  };

  const send = (listener: Listener, text: string) => {
    listener.response.write(text);
    if (listener.response.writableLength <= maxUnreadBytes) return;
    logger.warn({ projectId: listener.projectId }, 'event listener cut off: it did not keep up');
    cut(listener);
  };

  const feed = createLiveFeed({ ...parts, listeners, pollMs: timing.pollMs, send });

  /** Sends a listener earlier events page by page, as fast as it reads. After that it is live. */
  const catchUp = async (listener: Listener): Promise<void> => {
    const { response, projectId } = listener;
    while (listeners.has(listener)) {
      const records = await events.after(listener.seq, { projectId, limit: PAGE });
      for (const record of records) {
        listener.seq = record.seq;
        response.write(serialized(record));
      }
      if (records.length < PAGE) {
        send(listener, position(listener.seq));
        feed.join(listener);
        return;
      }
      if (response.writableNeedDrain && !(await drained(response, timing.stallMs))) cut(listener);
    }
  };

  return {
    async start() {
      await feed.start();
      const sendHeartbeat = () => {
        for (const listener of listeners) {
          // Events that do not concern a reader advance it as well. It would ask for events long gone when it reconnects.
          send(listener, `: still here\n${listener.live ? position(listener.seq) : '\n'}`);
        }
      };
      heartbeat = setInterval(sendHeartbeat, timing.heartbeatMs).unref();
    },

    serve(response, { projectId, after }) {
      beginStream(response);
      if (stopped) {
        response.end();
        return;
      }
      const listener: Listener = { response, projectId, live: false, seq: 0 };
      listeners.add(listener);
      response.once('close', () => listeners.delete(listener));
      const begin = async () => {
        const latest = await events.latest();
        // An id from an earlier database may lie ahead of every event.
        listener.seq = Math.min(after ?? latest, latest);
        if (projectId === null && after !== null) await resetIfLost(events, listener, { after, latest });
        await catchUp(listener);
      };
      begin().catch((error: unknown) => {
        logger.error({ err: error }, 'event listener could not be served');
        cut(listener);
      });
    },

    async stop() {
      stopped = true;
      clearInterval(heartbeat);
      await feed.stop();
      for (const { response } of listeners) response.end();
      listeners.clear();
    },

    get listeners() {
      return listeners.size;
    },
  };
}

/** Makes the part that reads new events and the progress of jobs, and sends them to live listeners. */
function createLiveFeed(
  parts: Pick<EventStreamParts, 'events' | 'jobs' | 'logger'> & {
    listeners: ReadonlySet<Listener>;
    pollMs: number;
    send: (listener: Listener, text: string) => void;
  },
) {
  const { events, jobs, logger, listeners, pollMs, send } = parts;
  /** Progress that was last sent, by media object. */
  let sentProgress = new Map<string, number>();
  /** The last event that was sent to live listeners. */
  let frontier = 0;

  const sendToLive = (record: EventRecord) => {
    const text = serialized(record);
    for (const listener of listeners) {
      if (!listener.live || record.seq <= listener.seq) continue;
      listener.seq = record.seq;
      const isConcerned =
        [record.projectId, listener.projectId].includes(null) || record.projectId === listener.projectId;
      if (isConcerned) send(listener, text);
    }
  };

  const sendProgress = async () => {
    const now = new Map<string, number>();
    for (const { mediaId, projectId, progress } of await jobs.underWay()) {
      now.set(mediaId, progress);
      if (sentProgress.get(mediaId) === progress) continue;
      const text = serializedProgress(mediaId, progress);
      for (const listener of listeners) {
        if (listener.live && listener.projectId === projectId) send(listener, text);
      }
    }
    sentProgress = now;
  };

  const readNew = async (): Promise<void> => {
    if (listeners.size === 0) return;
    for (let more = true; more; ) {
      const from = frontier;
      const records = await events.after(from, { projectId: null, limit: PAGE });
      // A listener that went live meanwhile moved the frontier back. The events that it has not seen are read first.
      if (frontier < from) continue;
      frontier = records.at(-1)?.seq ?? frontier;
      for (const record of records) sendToLive(record);
      more = records.length === PAGE;
    }
    await sendProgress();
  };

  const polling = createEventPolling({
    ...{ events, pollMs, read: readNew },
    onFailure: (error) => logger.error({ err: error }, 'events could not be read'),
  });

  return {
    async start() {
      frontier = await events.latest();
      polling.start();
    },

    /** Makes a listener live. It gets the events that follow its last one. */
    join(listener: Listener) {
      // The next read continues from the frontier. It may find some events again, which `seq` skips.
      frontier = Math.min(frontier, listener.seq);
      listener.live = true;
      polling.read();
    },

    stop: polling.stop,
  };
}

function beginStream(response: ServerResponse): void {
  response.writeHead(200, {
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-store',
    // Proxies that buffer answers would hold back the events.
    'X-Accel-Buffering': 'no',
  });
  response.write(`retry: ${RECONNECT_MS}\n: events follow\n\n`);
}

/** Sends `reset` to a reader of all projects if events between its last one and the oldest stored one are gone. */
async function resetIfLost(
  events: Pick<EventRepository, 'horizon'>,
  listener: Listener,
  { after, latest }: { after: number; latest: number },
): Promise<void> {
  const { completeAfter, purgedEverything } = await events.horizon();
  if (after >= completeAfter && after <= latest) return;
  listener.seq = latest;
  const data = { purged_everything: purgedEverything === null ? null : String(purgedEverything) };
  const event: EdgeReset = { id: String(latest), type: 'reset', data };
  listener.response.write(`id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

/** An event as the stream writes it. */
function serialized({ seq, type, data, createdAtMs }: EventRecord): string {
  const event = { id: String(seq), created_at: timestamp(createdAtMs), type, data };
  return `id: ${event.id}\nevent: ${type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Sets a reader's last event id without being an event (WHATWG HTML, 9.2.6). */
function position(seq: number): string {
  return `id: ${seq}\n\n`;
}

/** Without an id: a reader that reconnects continues after the last stored event. */
function serializedProgress(id: string, progress: number): string {
  const event: Event = { type: 'media.progress', data: { id, progress } };
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Whether the reader read everything in time. */
function drained(response: ServerResponse, withinMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (taken: boolean) => {
      clearTimeout(timer);
      response.off('drain', onDrain);
      response.off('close', onClose);
      resolve(taken);
    };
    const onDrain = () => end(true);
    const onClose = () => end(false);
    const timer = setTimeout(onClose, withinMs);
    response.once('drain', onDrain);
    response.once('close', onClose);
  });
}
