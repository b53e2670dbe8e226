import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bin, CommandFailed, run } from './workspace.mjs';

/** Where end-to-end tests run, of PostgreSQL and S3; see CONTRIBUTING.md. */
export const ON_POSTGRES_AND_S3 = { MDS_TEST_BACKENDS: 'postgres+s3' };

/** The workspace is built: whatever a test starts is what ships, which takes a fraction of the work of starting it from source. */
const BUILT = { MDS_TEST_BUILT: '1' };

/**
 * Runs vitest once for each of `runs`, all of them also where one fails, and says once how many tests passed in all. The workspace
 * must be built.
 * @param runs arguments of vitest, and what is set in its environment
 * @throws CommandFailed of the first that failed
 */
export async function runTests(...runs) {
  const counts = { numPassedTests: 0, numFailedTests: 0, numPendingTests: 0 };
  let failed = null;
  for (const { args, env = {} } of runs) {
    const folder = mkdtempSync(join(tmpdir(), 'mds-test-'));
    const report = join(folder, 'report.json');
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
    try {
      await run(bin('vitest'), ['run', ...reporters, ...args], { env: { ...BUILT, ...process.env, ...env } });
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      failed ??= error;
    } finally {
      try {
        const told = JSON.parse(readFileSync(report, 'utf8'));
        for (const name of Object.keys(counts)) counts[name] += told[name];
      } catch {
        console.error('The test runner ended without a report.');
      }
      rmSync(folder, { recursive: true, force: true });
    }
  }
  const { numPassedTests, numFailedTests, numPendingTests } = counts;
  console.log(`${numPassedTests} passed, ${numFailedTests} failed, ${numPendingTests} skipped`);
  if (failed !== null) throw failed;
}
