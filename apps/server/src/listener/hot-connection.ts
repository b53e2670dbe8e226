import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type AnswerSink, type HotRequest, statusLine } from '../http/answer-sink.ts';
import { InnerConnection } from './inner-connection.ts';
import { readSimpleHead } from './simple-head.ts';

/** Answers out of memory. True: it has answered; false: nothing was sent. A promise where that takes a moment to find out. */
export type HotAnswerer = (request: HotRequest, sink: AnswerSink) => boolean | Promise<boolean>;

/** A connection that is looked after. */
export interface HotConnection {
  /** Whether node:http looks after it from now on. */
  readonly isHandedOver: boolean;
  /** Whether it carries no request at the moment. */
  isResting(): boolean;
}

/** What a connection does: it waits for a request, for an answerer, for its reader, or for node:http; or it has gone over to that. */
type State = 'waiting' | 'deciding' | 'draining' | 'inside' | 'handed over';

/**
 * A connection with so many requests in a row that are not answered from memory is one for large files, or for something else that
 * never is: the way there and back would only cost it time.
 */
const MOST_LONG_IN_A_ROW = 16;

/**
 * Reads requests straight from a connection and answers what can be answered from memory. What can't goes through node:http and
 * back; with the first request that is not a simple one, or when nothing is answered from memory any more, the connection goes over
 * to node:http for good. So the fast way is short because it is narrow: see {@link readSimpleHead}.
 * @param parts.attach gives a connection to node:http
 * @param parts.isLeaving whether connections are to end with their next answer
 * @param parts.headTimeoutMs for the first request, from the moment that the connection was taken
 * @param parts.keepAliveMs between two requests
 */
export function lookAfter(
  socket: Socket,
  parts: {
    answer: HotAnswerer;
    attach: (connection: Duplex) => void;
    isLeaving: () => boolean;
    headTimeoutMs: number;
    keepAliveMs: number;
  },
): HotConnection {
  const { answer, attach, isLeaving, keepAliveMs } = parts;
  const persistence = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n\r\n`;
  let state: State = 'waiting';
  let inner: InnerConnection | null = null;
  /** Came while something else was going on. */
  let held: Buffer | null = null;
  let timeoutMs = 0;
  /** Requests, without one in between that was answered from memory, that went through node:http. */
  let longInARow = 0;
  /** The client sends nothing more. */
  let ended = false;

  const setTimeoutOnce = (ms: number) => {
    if (timeoutMs === ms) return;
    timeoutMs = ms;
    socket.setTimeout(ms);
  };

  const sink: AnswerSink = {
    send(status, fields, also, body) {
      const leaving = isLeaving();
      const connection = leaving ? 'Connection: close\r\n\r\n' : persistence;
      let head = statusLine(status) + fields.text;
      for (let at = 0; at + 1 < also.length; at += 2) head += `${also[at]}: ${also[at + 1]}\r\n`;
      head += dateLine() + connection;
      const [only] = body;
      if (body.length === 1 && only && head.length + only.length <= SCRATCH_BYTES) sendInOne(socket, head, only);
      else {
        socket.cork();
        socket.write(head, 'latin1');
        for (const part of body) socket.write(part);
        socket.uncork();
      }
      if (leaving) socket.end();
    },
    get unsentBytes() {
      return socket.writableLength;
    },
    onceTaken(callback) {
      let called = false;
      const once = () => {
        if (called) return;
        called = true;
        socket.off('close', once);
        callback();
      };
      socket.once('close', once);
      // Called back when what was written before it is with the system.
      if (socket.writable) socket.write('', once);
    },
    giveUpAfter: setTimeoutOnce,
  };

  const hold = (bytes: Buffer) => {
    held = held === null ? bytes : Buffer.concat([held, bytes]);
    socket.pause();
  };

  const goOn = () => {
    if (state === 'handed over' || socket.destroyed) return;
    state = 'waiting';
    setTimeoutOnce(keepAliveMs);
    const bytes = held;
    held = null;
    if (bytes !== null) take(bytes);
    if (held === null) socket.resume();
  };

  const handOver = (bytes: Buffer) => {
    state = 'handed over';
    socket.pause();
    socket.off('data', take).off('end', onEnd).off('timeout', onTimeout).off('error', onError).off('close', onClose);
    inner?.destroy();
    inner = null;
    socket.setTimeout(0);
    socket.unshift(held === null ? bytes : Buffer.concat([bytes, held]));
    held = null;
    attach(socket);
    socket.resume();
  };

  const goInside = (bytes: Buffer) => {
    state = 'inside';
    // An answer may take its time. node:http sets the timer itself where there is one.
    setTimeoutOnce(0);
    timeoutMs = -1;
    if (inner === null) {
      inner = new InnerConnection(socket, goOn);
      inner.on('error', () => socket.destroy());
      attach(inner);
    }
    inner.ask(bytes);
  };

  const settle = (answered: boolean, bytes: Buffer) => {
    if (socket.destroyed) return;
    longInARow = answered ? 0 : longInARow + 1;
    if (longInARow > MOST_LONG_IN_A_ROW && !ended) handOver(bytes);
    else if (!answered) goInside(bytes);
    else if (socket.writableLength > 0) {
      state = 'draining';
      sink.onceTaken(goOn);
    } else {
      state = 'waiting';
      setTimeoutOnce(keepAliveMs);
    }
  };

  function take(bytes: Buffer): void {
    if (state !== 'waiting') {
      hold(bytes);
      return;
    }
    const head = readSimpleHead(bytes);
    if (head === null) {
      handOver(bytes);
      return;
    }
    const { method, url, headers } = head;
    const answering = answer({ method, url, headers, httpVersion: '1.1', socket }, sink);
    if (typeof answering === 'boolean') {
      settle(answering, bytes);
      return;
    }
    state = 'deciding';
    answering.then(
      (answered) => {
        settle(answered, bytes);
        if (ended) onEnd();
        else if (state === 'waiting') goOn();
      },
      (error: unknown) => socket.destroy(error instanceof Error ? error : new Error(String(error))),
    );
  }

  function onEnd(): void {
    ended = true;
    if (state === 'inside') inner?.push(null);
    // Who is about to be answered may close its own half before.
    else if (state !== 'deciding') socket.end();
  }

  function onTimeout(): void {
    // node:http knows what to do about the request that it is answering.
    if (state === 'inside') inner?.emit('timeout');
    else socket.destroy();
  }

  function onError(): void {
    // The reader is gone: `close` follows.
  }

  function onClose(): void {
    inner?.destroy();
  }

  setTimeoutOnce(parts.headTimeoutMs);
  socket.on('data', take).on('end', onEnd).on('timeout', onTimeout).on('error', onError).on('close', onClose);
  return {
    get isHandedOver() {
      return state === 'handed over';
    },
    isResting: () => state === 'waiting',
  };
}

const SCRATCH_BYTES = 24 * 1024;
let scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/** Sends head and body as one buffer: for what is small, copying it costs a fraction of what a `writev` of a string and a buffer does. */
function sendInOne(socket: Socket, head: string, body: Buffer): void {
  const headBytes = scratch.write(head, 'latin1');
  body.copy(scratch, headBytes);
  socket.write(scratch.subarray(0, headBytes + body.length));
  // The system has not taken all of it, and will come back for the rest.
  if (socket.writableLength > 0) scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
}

let dateText: string | null = null;

/** `Date`, made once a second (RFC 9110, 6.6.1). */
function dateLine(): string {
  if (dateText === null) {
    const now = new Date();
    dateText = `Date: ${now.toUTCString()}\r\n`;
    const forget = () => {
      dateText = null;
    };
    setTimeout(forget, 1000 - now.getUTCMilliseconds()).unref();
  }
  return dateText;
}
