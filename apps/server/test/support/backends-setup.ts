import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/**
 * One PostgreSQL and one S3 server for a whole run of the tests with `MDS_TEST_BACKENDS=postgres+s3`; `backends.ts` gives each service
 * its own database and bucket in them. Vitest calls this before all tests, without the conditions to run packages from source. So a process
 * of its own starts the servers, which end with it.
 * @returns ends them
 */
export async function setup(): Promise<() => Promise<void>> {
  // The backends of a run are an environment variable, and no setting of a service.
  const asked = process.env['MDS_TEST_BACKENDS'] ?? '';
  if (asked !== 'postgres+s3') throw new Error(`MDS_TEST_BACKENDS is postgres+s3 or nothing, and not ${asked}.`);
  // Each project of the run calls this. All use the servers of the first.
  if (process.env['MDS_TEST_POSTGRES'] !== undefined) return async () => undefined;
  const entry = fileURLToPath(new URL('./backend-servers.ts', import.meta.url));
  const child = spawn(process.execPath, ['--conditions=@mds/source', '--import', 'tsx', entry], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  for await (const line of createInterface({ input: child.stdout })) {
    // The test processes inherit them.
    Object.assign(process.env, JSON.parse(line));
    return async () => {
      child.stdin.end();
      await exited;
    };
  }
  throw new Error('The servers for the tests do not start.');
}
