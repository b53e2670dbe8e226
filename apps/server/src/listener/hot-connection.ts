import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  type AnswerSink,
  type Fields,
  type PreparedFields,
  type RequestHead,
  statusLine,
} from '../http/answer-sink.ts';
import { InnerConnection } from './inner-connection.ts';
import { readSimpleHead } from './simple-head.ts';

/** Answers from memory. True: it has answered; false: nothing was sent. A promise if it has to wait to know. */
export type HotAnswerer = (request: RequestHead, sink: AnswerSink) => boolean | Promise<boolean>;

export interface HotConnectionParts {
  answer: HotAnswerer;
  /** Gives a connection to node:http. */
  attach: (connection: Duplex) => void;
  /** Whether connections are to end with their next answer. */
  isLeaving: () => boolean;
  /** For the first request, from the moment that the connection was accepted. */
  headTimeoutMs: number;
  /** Between two requests. */
  keepAliveMs: number;
}

/**
 * The connection waits for a request, for the answerer, for a reader that takes its answer, or for node:http.
 * `handed over`: node:http has the connection for good.
 */
type State = 'waiting' | 'deciding' | 'draining' | 'in node' | 'handed over';

/**
 * After this many requests in a row that memory does not answer, a connection is handed over. Its client reads large files, or
 * something else that is never in memory, and the detour would only cost time.
 */
const MAX_MISSES_IN_A_ROW = 16;

/**
 * Reads requests straight from a connection and answers from memory if possible. Other requests take a detour through node:http.
 * At the first request that is not simple, or after too many detours, node:http gets the connection for good. The direct way is
 * fast because it is narrow: see {@link readSimpleHead}.
 */
export class HotConnection {
  readonly #socket: Socket;
  readonly #parts: HotConnectionParts;
  readonly #sink: SocketSink;
  readonly #listeners;
  #state: State = 'waiting';
  #inner: InnerConnection | null = null;
  /** Bytes that arrived while a request was being answered. */
  #unread: Buffer | null = null;
  #missesInARow = 0;
  /** The client sends nothing more. */
  #isEnded = false;

  constructor(socket: Socket, parts: HotConnectionParts) {
    this.#socket = socket;
    this.#parts = parts;
    this.#sink = new SocketSink(socket, parts);
    this.#listeners = {
      data: (bytes: Buffer) => this.#onData(bytes),
      end: () => this.#onEnd(),
      timeout: () => this.#onTimeout(),
      // The client is gone: `close` follows.
      error: () => undefined,
      close: () => this.#inner?.destroy(),
    };
    this.#sink.giveUpAfter(parts.headTimeoutMs);
    for (const [event, listener] of Object.entries(this.#listeners)) socket.on(event, listener);
  }

  get isHandedOver(): boolean {
    return this.#state === 'handed over';
  }

  /** Whether no request is being answered. */
  get isIdle(): boolean {
    return this.#state === 'waiting';
  }

  #onData(bytes: Buffer): void {
    if (this.#state !== 'waiting') {
      this.#unread = this.#unread === null ? bytes : Buffer.concat([this.#unread, bytes]);
      this.#socket.pause();
      return;
    }
    const head = readSimpleHead(bytes);
    if (head === null) {
      this.#handOver(bytes);
      return;
    }
    const { method, url, headers } = head;
    const request: RequestHead = { method, url, headers, httpVersion: '1.1', socket: this.#socket };
    const answering = this.#parts.answer(request, this.#sink);
    if (typeof answering === 'boolean') {
      this.#conclude(answering, request, bytes);
      return;
    }
    this.#state = 'deciding';
    answering.then(
      (isAnswered) => {
        this.#conclude(isAnswered, request, bytes);
        if (this.#isEnded) this.#onEnd();
        else if (this.#state === 'waiting') this.#resume();
      },
      (error: unknown) => this.#socket.destroy(error instanceof Error ? error : new Error(String(error))),
    );
  }

  #conclude(isAnswered: boolean, request: RequestHead, bytes: Buffer): void {
    const socket = this.#socket;
    if (socket.destroyed) return;
    this.#missesInARow = isAnswered ? 0 : this.#missesInARow + 1;
    if (this.#missesInARow > MAX_MISSES_IN_A_ROW && !this.#isEnded) this.#handOver(bytes);
    else if (!isAnswered) this.#askNode(request, bytes);
    else if (socket.writableLength > 0) {
      this.#state = 'draining';
      this.#sink.onceTaken(() => this.#resume());
    } else {
      this.#state = 'waiting';
      this.#sink.giveUpAfter(this.#parts.keepAliveMs);
    }
  }

  /** Waits for the next request, which may have arrived already. */
  #resume(): void {
    if (this.#state === 'handed over' || this.#socket.destroyed) return;
    this.#state = 'waiting';
    this.#sink.giveUpAfter(this.#parts.keepAliveMs);
    const bytes = this.#unread;
    this.#unread = null;
    if (bytes !== null) this.#onData(bytes);
    if (this.#unread === null) this.#socket.resume();
  }

  /** Has node:http answer one request. */
  #askNode(request: RequestHead, bytes: Buffer): void {
    this.#state = 'in node';
    // The answer may take long. node:http sets a timer itself if it wants one.
    this.#sink.releaseTimer();
    if (this.#inner === null) {
      this.#inner = new InnerConnection(this.#socket, () => this.#resume());
      this.#inner.on('error', () => this.#socket.destroy());
      this.#parts.attach(this.#inner);
    }
    this.#inner.ask(request, bytes);
  }

  /** Gives the connection to node:http for good. */
  #handOver(bytes: Buffer): void {
    const socket = this.#socket;
    this.#state = 'handed over';
    socket.pause();
    for (const [event, listener] of Object.entries(this.#listeners)) socket.off(event, listener);
    this.#inner?.destroy();
    this.#inner = null;
    socket.setTimeout(0);
    socket.unshift(this.#unread === null ? bytes : Buffer.concat([bytes, this.#unread]));
    this.#unread = null;
    this.#parts.attach(socket);
    socket.resume();
  }

  #onEnd(): void {
    this.#isEnded = true;
    if (this.#state === 'in node') this.#inner?.push(null);
    // A client may close its own half before it is answered.
    else if (this.#state !== 'deciding') this.#socket.end();
  }

  #onTimeout(): void {
    // node:http knows what to do about the request that it is answering.
    if (this.#state === 'in node') this.#inner?.emit('timeout');
    else this.#socket.destroy();
  }
}

/** {@link AnswerSink} over a socket. */
class SocketSink implements AnswerSink {
  readonly #socket: Socket;
  readonly #isLeaving: () => boolean;
  readonly #persistence: string;
  #timeoutMs = 0;

  constructor(socket: Socket, { isLeaving, keepAliveMs }: Pick<HotConnectionParts, 'isLeaving' | 'keepAliveMs'>) {
    this.#socket = socket;
    this.#isLeaving = isLeaving;
    this.#persistence = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n\r\n`;
  }

  send(status: number, fields: PreparedFields, also: Fields, body: readonly Buffer[]): void {
    const socket = this.#socket;
    const leaving = this.#isLeaving();
    let head = statusLine(status) + fields.text;
    for (let at = 0; at + 1 < also.length; at += 2) head += `${also[at]}: ${also[at + 1]}\r\n`;
    head += dateLine() + (leaving ? 'Connection: close\r\n\r\n' : this.#persistence);
    const [only] = body;
    if (body.length === 1 && only && head.length + only.length <= SCRATCH_BYTES) sendAsOneBuffer(socket, head, only);
    else {
      socket.cork();
      socket.write(head, 'latin1');
      for (const part of body) socket.write(part);
      socket.uncork();
    }
    if (leaving) socket.end();
  }

  get unsentBytes(): number {
    return this.#socket.writableLength;
  }

  onceTaken(callback: () => void): void {
    const socket = this.#socket;
    let isCalled = false;
    const once = () => {
      if (isCalled) return;
      isCalled = true;
      socket.off('close', once);
      callback();
    };
    socket.once('close', once);
    // Its callback is called when the system has taken everything written before.
    if (socket.writable) socket.write('', once);
  }

  /** Setting the same time again costs nothing. */
  giveUpAfter(ms: number): void {
    if (this.#timeoutMs === ms) return;
    this.#timeoutMs = ms;
    this.#socket.setTimeout(ms);
  }

  /** Clears the timer. Others may set it until the next {@link giveUpAfter}. */
  releaseTimer(): void {
    this.giveUpAfter(0);
    this.#timeoutMs = -1;
  }
}

const SCRATCH_BYTES = 24 * 1024;
let scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/** Sends head and body as one buffer. For a small body, the copy costs a fraction of a `writev` of a string and a buffer. */
function sendAsOneBuffer(socket: Socket, head: string, body: Buffer): void {
  const headBytes = scratch.write(head, 'latin1');
  body.copy(scratch, headBytes);
  socket.write(scratch.subarray(0, headBytes + body.length));
  // The system has not taken all of it, and still refers to the buffer.
  if (socket.writableLength > 0) scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
}

let dateText: string | null = null;

/** The field `Date`, formatted once a second (RFC 9110, 6.6.1). */
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
