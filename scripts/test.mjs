// `npm test [-- vitest arguments]`: installs and builds what is missing, then runs every test.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bin, ensureBuilt, ensureInstalled, main, run } from './workspace.mjs';

await main(async () => {
  await ensureInstalled();
  await ensureBuilt(); // some tests run what ships
  const folder = mkdtempSync(join(tmpdir(), 'mds-test-'));
  const report = join(folder, 'report.json');
  try {
    await run(bin('vitest'), [
      'run',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      ...process.argv.slice(2),
    ]);
  } finally {
    try {
      const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(readFileSync(report, 'utf8'));
      console.log(`${numPassedTests} passed, ${numFailedTests} failed, ${numPendingTests} skipped`);
    } catch {
      console.error('The test runner ended without a report.');
    }
    rmSync(folder, { recursive: true, force: true });
  }
});
