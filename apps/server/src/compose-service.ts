import type { Logger } from './base/logger.ts';
import type { Config } from './config.ts';
import type { Service } from './service.ts';

/**
 * Builds and starts the service for the configured roles, one of which is `api` or `edge`. Modules of the other role are not loaded.
 * @throws ConfigError, DataDirError, DatabaseRefusedError, ListenError: the operator must act; nothing is left running
 */
export async function composeService(config: Config, logger: Logger): Promise<Service> {
  if (config.roles.includes('api')) {
    const { composeApi } = await import('./compose-api.ts');
    return composeApi(config, logger);
  }
  const { composeEdge } = await import('./compose-edge.ts');
  return composeEdge(config, logger);
}
