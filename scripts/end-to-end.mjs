// Which tests are end-to-end, and which of them every run of the tests repeats on PostgreSQL and S3.
import { readdirSync, readFileSync } from 'node:fs';
import { ROOT } from './workspace.mjs';

/** What starts a whole service for a test. */
const STARTS_SERVICES = /from '[^']*\/(service-fixture|service-process|points-of-presence|several-nodes|backends)\.ts'/;
/** What starts servers for one: its services are on PostgreSQL and S3 in every run. */
const STARTS_SERVERS = /from '[^']*\/(postgres-server|s3-server|several-nodes|migrate-servers)\.ts'/;

/**
 * The test files over whole services, paths from the root of the repository in order. What they start is on SQLite and the disk, or
 * where `MDS_TEST_BACKENDS` says; `ownServers` are those that bring servers of their own.
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

/** Quick ones that go through every part: the read API, pictures and their renditions, uploads that go on, video. */
export const ALWAYS_ON_BOTH = [
  'apps/server/test/conformance.test.ts',
  'apps/server/test/other-process.measuring.test.ts',
  'apps/server/test/tus.waiting.test.ts',
  'apps/server/test/video.test.ts',
];
