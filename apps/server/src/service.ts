/** A running service. */
export interface Service {
  /** The address that it listens on. */
  url: string;
  /** Rejects if a storage that did not answer at the start turns out to be another deployment's: the service must stop. */
  storageKnown: Promise<void>;
  /** Begins the work in the background, which keeps this process busy for a moment. To be called once. Requests are answered before. */
  startInBackground(): void;
  /**
   * Finishes the requests in flight, gives back unfinished work, and releases the data folder.
   * @param options.graceMs how long `/readyz` reports the stop while connections are still accepted
   * @param options.crashed an unexpected error is the reason, and the work in progress may have caused it
   */
  stop(options?: { graceMs?: number; crashed?: boolean }): Promise<void>;
}
