import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

/**
 * A connection within a connection: what node:http is given of a {@link Socket} whose requests are read elsewhere. Requests are
 * pushed into it one at a time, and what is answered goes out through the socket as it comes, with the socket's backpressure.
 */
export class InnerConnection extends Duplex {
  readonly #socket: Socket;
  readonly #onAnswered: () => void;
  /** Whether a request is being answered: then the end of this connection is the end of the socket. */
  #busy = false;

  /** @param onAnswered called when an answer is complete, and the connection goes on */
  constructor(socket: Socket, onAnswered: () => void) {
    super({ allowHalfOpen: true, autoDestroy: true });
    this.#socket = socket;
    this.#onAnswered = onAnswered;
  }

  get remoteAddress(): string | undefined {
    return this.#socket.remoteAddress;
  }

  /** Hands in the bytes of one whole request. */
  ask(request: Buffer): void {
    this.#busy = true;
    this.push(request);
  }

  /** Tells that the request that was handed in is answered, or given up. */
  answered(): void {
    if (!this.#busy) return;
    this.#busy = false;
    if (!this.destroyed && !this.writableEnded) this.#onAnswered();
  }

  /** As of a socket, whose timer it is: `timeout` has to be passed on. */
  setTimeout(ms: number): this {
    this.#socket.setTimeout(ms);
    return this;
  }

  override _read(): void {
    // Requests come when they come.
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
    if (this.#busy) this.#socket.destroy();
    callback(error);
  }
}
