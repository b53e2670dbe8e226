import { fileURLToPath } from 'node:url';
import type { Logger } from '../../src/base/logger.ts';
import type { Config } from '../../src/config.ts';
import type { Service } from '../../src/service.ts';

/** The programs that tests start, by name. */
const PROGRAMS = { server: '../../', mds: '../../../cli/' } as const;

/**
 * Whether tests start the built programs. `npm test` sets this after its build, because a process from source compiles everything and takes
 * two or three times as long to start. A run of vitest alone uses the source, so that it never tests an outdated build.
 */
export const TESTS_BUILT = process.env['MDS_TEST_BUILT'] === '1';

/** The arguments of Node that start a program of the workspace. @param built the built program, or the source; default: that of this run */
export function nodeArguments(program: keyof typeof PROGRAMS, built = TESTS_BUILT): string[] {
  const at = (path: string) => fileURLToPath(new URL(PROGRAMS[program] + path, import.meta.url));
  if (built) return [at('dist/main.js')];
  return ['--conditions=@mds/source', '--import', import.meta.resolve('tsx'), at('src/main.ts')];
}

/** Composes the service of this run in this process. Its worker and engine are processes of their own. */
export async function composeUnderTest(config: Config, logger: Logger): Promise<Service> {
  const compose = TESTS_BUILT ? '../../dist/compose-service.js' : '../../src/compose-service.ts';
  const module: typeof import('../../src/compose-service.ts') = await import(new URL(compose, import.meta.url).href);
  const service = await module.composeService(config, logger);
  service.startInBackground();
  return service;
}
