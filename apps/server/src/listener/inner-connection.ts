import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { RequestHead } from '../http/answer-sink.ts';

/**
 * A connection within a connection: node:http gets it in place of a {@link Socket} whose requests are read elsewhere. Requests are
 * pushed into it one at a time. Answers go out through the socket, with the socket's backpressure.
 */
export class InnerConnection extends Duplex {
  readonly #socket: Socket;
  readonly #onAnswered: () => void;
  #request: RequestHead | null = null;

  /** @param onAnswered called when an answer is complete and the connection continues */
  constructor(socket: Socket, onAnswered: () => void) {
    super({ allowHalfOpen: true, autoDestroy: true });
    this.#socket = socket;
    this.#onAnswered = onAnswered;
  }

  get remoteAddress(): string | undefined {
    return this.#socket.remoteAddress;
  }

  /** The request that is being answered, as it was read from the socket. While there is one, the socket ends with this connection. */
  get request(): RequestHead | null {
    return this.#request;
  }

  /** Pushes one whole request. */
  ask(request: RequestHead, bytes: Buffer): void {
    this.#request = request;
    this.push(bytes);
  }

  /** To be called when the request is answered or given up. */
  answered(): void {
    if (this.#request === null) return;
    this.#request = null;
    if (!this.destroyed && !this.writableEnded) this.#onAnswered();
  }

  /** The timer is the socket's, whose `timeout` must be passed on. */
  setTimeout(ms: number): this {
    this.#socket.setTimeout(ms);
    return this;
  }

  override _read(): void {
    // Requests are pushed when they arrive.
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    this.#socket.write(chunk, encoding, callback);
  }

  override _writev(
    chunks: { chunk: Buffer; encoding: BufferEncoding }[],
    callback: (error?: Error | null) => void,
  ): void {
    this.#socket.cork();
    chunks.forEach(({ chunk, encoding }, index) => {
      if (index < chunks.length - 1) this.#socket.write(chunk, encoding);
      else this.#socket.write(chunk, encoding, callback);
    });
    this.#socket.uncork();
  }

  override _final(callback: (error?: Error | null) => void): void {
    this.#socket.end(callback);
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (this.#request !== null) this.#socket.destroy();
    callback(error);
  }
}
