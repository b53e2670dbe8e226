/** This program cannot use the database, or must not. The message names the remedy. */
export class DatabaseRefusedError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DatabaseRefusedError';
  }
}

/** The database does not answer. It may later, so that it helps to start again. */
export class DatabaseUnreachableError extends DatabaseRefusedError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DatabaseUnreachableError';
  }
}
