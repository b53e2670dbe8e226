/** A database that this program must not touch, or cannot; the message says what to do. */
export class DatabaseRefusedError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DatabaseRefusedError';
  }
}

/** A database that does not answer. It may by itself, later: to start again helps. */
export class DatabaseUnreachableError extends DatabaseRefusedError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DatabaseUnreachableError';
  }
}
