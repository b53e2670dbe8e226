import { fileURLToPath } from 'node:url';
import type { Logger } from '../../src/base/logger.ts';
import type { Service } from '../../src/compose-service.ts';
import type { Config } from '../../src/config.ts';

/** What the tests start in processes of their own. */
const PROGRAMS = { server: '../../', mds: '../../../cli/' } as const;

/**
 * Whether the programs that tests start are what `npm run build` made, as `npm test` says once it has built: from source each process
 * would have its own copy of everything compiled, which takes it two or three times as long to start. Else they run from source, so that
 * a run of vitest alone never tests what was built before the last change.
 */
export const TESTS_BUILT = process.env['MDS_TEST_BUILT'] === '1';

/** The arguments of Node that start a program of the workspace. @param built what ships, or the source; default: what this run tests */
export function nodeArguments(program: keyof typeof PROGRAMS, built = TESTS_BUILT): string[] {
  const at = (path: string) => fileURLToPath(new URL(PROGRAMS[program] + path, import.meta.url));
  if (built) return [at('dist/main.js')];
  return ['--conditions=@mds/source', '--import', import.meta.resolve('tsx'), at('src/main.ts')];
}

/** The service in this process, whose worker and engine are processes of their own: the one that this run tests. */
export async function composeUnderTest(config: Config, logger: Logger): Promise<Service> {
  const compose = TESTS_BUILT ? '../../dist/compose-service.js' : '../../src/compose-service.ts';
  const module: typeof import('../../src/compose-service.ts') = await import(new URL(compose, import.meta.url).href);
  return module.composeService(config, logger);
}
