/** A running service. */
export interface Service {
  /** The address that it listens on. */
  url: string;
  /** Rejects if a storage that did not answer at the start turns out to be another deployment's: the service must stop. */
  storageKnown: Promise<void>;
  /**
   * Finishes the requests in flight, gives back unfinished work, and releases the data folder.
   * @param options.graceMs how long `/readyz` reports the stop while connections are still accepted
   * @param options.crashed an unexpected error is the reason, and the work in progress may have caused it
   */
  stop(options?: { graceMs?: number; crashed?: boolean }): Promise<void>;
}

export interface ServiceOptions {
  /** Called once requests are answered, before work in the background begins, which would delay the caller. */
  onListening?: (url: string) => void;
}
