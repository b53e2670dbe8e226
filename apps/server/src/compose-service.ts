import type { Logger } from './base/logger.ts';
import type { Config } from './config.ts';
import type { Service, ServiceOptions } from './service.ts';

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
