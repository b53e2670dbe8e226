import type { Logger } from './base/logger.ts';
import type { Config } from './config.ts';

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

/**
 * Builds and starts the service for the configured roles, one of which is `api` or `edge`. Modules of the other role are not loaded.
 * @throws ConfigError, DataDirError, DatabaseRefusedError, ListenError: the operator must act; nothing is left running
 */
export async function composeService(config: Config, logger: Logger, options: ServiceOptions = {}): Promise<Service> {
  if (config.roles.includes('api')) {
    const { composeApi } = await import('./compose-api.ts');
    return composeApi(config, logger, options);
  }
  const { composeEdge } = await import('./compose-edge.ts');
  return composeEdge(config, logger, options);
}
