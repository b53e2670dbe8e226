import type { Logger } from './base/logger.ts';
import type { Service } from './compose.ts';
import type { Config } from './config.ts';

/**
 * Builds and starts the service for the configured roles, of which one is `api` or `edge`. What only the other needs is not loaded.
 * @throws ConfigError, DataDirError, DatabaseRefusedError, ListenError: what the operator must see to; nothing is left running
 */
export async function composeService(config: Config, logger: Logger): Promise<Service> {
  if (config.roles.has('api')) {
    const { composeApi } = await import('./compose.ts');
    return composeApi(config, logger);
  }
  const { composeEdge } = await import('./compose-edge.ts');
  return composeEdge(config, logger);
}
