// Lists the end-to-end tests, and those that every run repeats on PostgreSQL and S3.
import { readdirSync, readFileSync } from 'node:fs';
import { ROOT } from './workspace.mjs';

/** Modules that start a whole service for a test. */
const STARTS_SERVICES = /from '[^']*\/(service-fixture|service-process|points-of-presence|several-nodes|backends)\.ts'/;
/** Modules that start servers for a test, whose services use PostgreSQL and S3 in every run. */
const STARTS_SERVERS = /from '[^']*\/(postgres-server|s3-server|several-nodes|migrate-servers)\.ts'/;

/**
 * Finds the test files over whole services, as sorted paths from the root of the repository. `files` start services on SQLite and the disk,
 * or on the servers of `MDS_TEST_BACKENDS`. `ownServers` start their own servers.
 */
export function endToEndFiles() {
  const found = { files: [], ownServers: [] };
  for (const folder of ['apps', 'packages']) {
    for (const name of readdirSync(`${ROOT}${folder}`, { recursive: true })) {
      if (!name.endsWith('.test.ts') || name.includes('node_modules')) continue;
      const file = `${folder}/${name}`;
      const text = readFileSync(ROOT + file, 'utf8');
      if (!STARTS_SERVICES.test(text)) continue;
      found[STARTS_SERVERS.test(text) ? 'ownServers' : 'files'].push(file);
    }
  }
  return { files: found.files.sort(), ownServers: found.ownServers.sort() };
}

/** Quick ones that use every part: the read API, pictures and their renditions, resumable uploads, video. */
export const ALWAYS_ON_BOTH = [
  'apps/server/test/conformance.test.ts',
  'apps/server/test/other-process.measuring.test.ts',
  'apps/server/test/tus.waiting.test.ts',
  'apps/server/test/video.test.ts',
];
