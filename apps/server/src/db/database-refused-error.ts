/** A database that this program must not touch, or cannot; the message says what to do. */
export class DatabaseRefusedError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DatabaseRefusedError';
  }
}
