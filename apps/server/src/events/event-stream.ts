import type { ServerResponse } from 'node:http';
import type { EdgeReset, Event } from '@mds/contract';
import type { Logger } from '../base/logger.ts';
import { timestamp } from '../base/presented.ts';
import type { EventRecord, EventRepository } from '../db/event-repository.ts';
import type { JobQueue } from '../db/job-queue.ts';

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
  /** Between two looks for what other processes have written, while somebody listens. */
  pollMs: number;
  /** Between two comments that keep a quiet connection alive. */
  heartbeatMs: number;
  /** In which a reader that catches up takes a page. */
  stallMs: number;
}

/** Tells listeners what happens, as server-sent events (WHATWG HTML, 9.2). */
export interface EventStream {
  start(): Promise<void>;
  /**
   * Answers with the events of a project and of everybody, from after `after` on; null: from now on. Once the reader is up to date it
   * is told so by an id without data, which is where it goes on when the connection breaks. The answer ends when its reader goes,
   * does not keep up, or the stream stops.
   * @param reader.projectId null: of all projects, and `reset` where events after `after` are not kept any more
   */
  serve(response: ServerResponse, reader: { projectId: string | null; after: number | null }): void;
  /** Ends every answer. */
  stop(): Promise<void>;
  readonly listeners: number;
}

const TIMING: EventStreamTiming = { pollMs: 150, heartbeatMs: 15_000, stallMs: 30_000 };
const MAX_UNREAD_BYTES = 1024 * 1024;
/** Events that are read from the database at once. */
const PAGE = 500;
/** For readers whose connection breaks: they come back after this time. */
const RECONNECT_MS = 2_000;

interface Listener {
  response: ServerResponse;
  /** Null: all, without their progress. */
  projectId: string | null;
  /** False while it is being brought up to date. */
  live: boolean;
  /** The last event that it was sent, or that does not concern it. */
  seq: number;
}

/** {@link EventStream}: one look into the database serves all listeners, and each event is written down once for all. */
export function createEventStream(parts: EventStreamParts): EventStream {
  const { events, jobs, logger, maxUnreadBytes = MAX_UNREAD_BYTES } = parts;
  const timing = { ...TIMING, ...parts.timing };
  const listeners = new Set<Listener>();
  /** Progress as it was last told, by media object. */
  let told = new Map<string, number>();
  /** Up to where live listeners have been told. */
  let frontier = 0;
  let looking: Promise<void> | null = null;
  let lookAgain = false;
  let timers: NodeJS.Timeout[] = [];
  let forget: () => void = () => undefined;
  let stopped = false;

  const cut = (listener: Listener) => {
    listeners.delete(listener);
    listener.response.destroy();
  };

  const send = (listener: Listener, text: string) => {
    listener.response.write(text);
    if (listener.response.writableLength <= maxUnreadBytes) return;
    logger.warn({ projectId: listener.projectId }, 'a listener to events did not keep up and was cut off');
    cut(listener);
  };

  const tell = (record: EventRecord) => {
    const text = written(record);
    for (const listener of listeners) {
      if (!listener.live || record.seq <= listener.seq) continue;
      listener.seq = record.seq;
      const isMeant = [record.projectId, listener.projectId].includes(null) || record.projectId === listener.projectId;
      if (isMeant) send(listener, text);
    }
  };

  const tellProgress = async () => {
    const now = new Map<string, number>();
    for (const { mediaId, projectId, progress } of await jobs.underWay()) {
      now.set(mediaId, progress);
      if (told.get(mediaId) === progress) continue;
      const text = writtenProgress(mediaId, progress);
      for (const listener of listeners) {
        if (listener.live && listener.projectId === projectId) send(listener, text);
      }
    }
    told = now;
  };

  const look = async (): Promise<void> => {
    for (let more = true; more; ) {
      const from = frontier;
      const records = await events.after(from, { projectId: null, limit: PAGE });
      // A listener that went live meanwhile has moved the frontier back: what it has not seen is read first.
      if (frontier < from) continue;
      frontier = records.at(-1)?.seq ?? frontier;
      for (const record of records) tell(record);
      more = records.length === PAGE;
    }
    await tellProgress();
  };

  /** One look at a time; one that is asked for meanwhile follows. */
  const lookSoon = (): void => {
    if (stopped || listeners.size === 0) return;
    if (looking !== null) {
      lookAgain = true;
      return;
    }
    looking = look()
      .catch((error: unknown) => logger.error({ err: error }, 'the events could not be read'))
      .finally(() => {
        looking = null;
        if (!lookAgain) return;
        lookAgain = false;
        lookSoon();
      });
  };

  /** Brings a listener up to date page by page, as fast as it reads, and lets it go live then. */
  const catchUp = async (listener: Listener): Promise<void> => {
    const { response, projectId } = listener;
    while (listeners.has(listener)) {
      const records = await events.after(listener.seq, { projectId, limit: PAGE });
      for (const record of records) {
        listener.seq = record.seq;
        response.write(written(record));
      }
      if (records.length < PAGE) {
        // What comes after these, the next look tells, from the frontier on; it may tell some of these again, which `seq` hides.
        frontier = Math.min(frontier, listener.seq);
        listener.live = true;
        send(listener, position(listener.seq));
        lookSoon();
        return;
      }
      if (response.writableNeedDrain && !(await drained(response, timing.stallMs))) cut(listener);
    }
  };

  /** Tells a reader of all projects where events between its last one and the oldest that is kept are gone. */
  const resetWhereLost = async (listener: Listener, { after, latest }: { after: number; latest: number }) => {
    const { completeAfter, purgedEverything } = await events.horizon();
    if (after >= completeAfter && after <= latest) return;
    listener.seq = latest;
    const data = { purged_everything: purgedEverything === null ? null : String(purgedEverything) };
    const event: EdgeReset = { id: String(latest), type: 'reset', data };
    listener.response.write(`id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  };

  return {
    async start() {
      frontier = await events.latest();
      forget = events.onAppended(lookSoon);
      const beat = () => {
        for (const listener of listeners) {
          // What does not concern a reader moves it on as well, or it would ask for what is long gone when it comes back.
          send(listener, `: still here\n${listener.live ? position(listener.seq) : '\n'}`);
        }
      };
      timers = [setInterval(lookSoon, timing.pollMs).unref(), setInterval(beat, timing.heartbeatMs).unref()];
    },

    serve(response, { projectId, after }) {
      response.writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-store',
        // Proxies that collect an answer before they pass it on would keep the events to themselves.
        'X-Accel-Buffering': 'no',
      });
      response.write(`retry: ${RECONNECT_MS}\n: events follow\n\n`);
      if (stopped) {
        response.end();
        return;
      }
      const listener: Listener = { response, projectId, live: false, seq: 0 };
      listeners.add(listener);
      response.once('close', () => listeners.delete(listener));
      const begin = async () => {
        const latest = await events.latest();
        // An id from before the database was made anew may lie ahead of all that there is.
        listener.seq = Math.min(after ?? latest, latest);
        if (projectId === null && after !== null) await resetWhereLost(listener, { after, latest });
        await catchUp(listener);
      };
      begin().catch((error: unknown) => {
        logger.error({ err: error }, 'a listener to events could not be served');
        cut(listener);
      });
    },

    async stop() {
      stopped = true;
      forget();
      for (const timer of timers) clearInterval(timer);
      await looking;
      for (const { response } of listeners) response.end();
      listeners.clear();
    },

    get listeners() {
      return listeners.size;
    },
  };
}

/** An event as the stream writes it. */
function written({ seq, type, data, createdAtMs }: EventRecord): string {
  const event = { id: String(seq), created_at: timestamp(createdAtMs), type, data };
  return `id: ${event.id}\nevent: ${type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Sets a reader's last event id without being an event (WHATWG HTML, 9.2.6). */
function position(seq: number): string {
  return `id: ${seq}\n\n`;
}

/** Without an id: a reader that comes back goes on after the last event that is kept. */
function writtenProgress(id: string, progress: number): string {
  const event: Event = { type: 'media.progress', data: { id, progress } };
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Whether the reader took what was written to it, in time. */
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
