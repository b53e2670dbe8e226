import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ALWAYS_ON_BOTH, endToEndFiles } from './end-to-end.mjs';
import { ROOT } from './workspace.mjs';

it('finds end-to-end tests, and those that start their own servers', () => {
  const { files, ownServers } = endToEndFiles();
  expect(files).toEqual(expect.arrayContaining([...ALWAYS_ON_BOTH, 'apps/cli/test/watch-kill.waiting.test.ts']));
  expect(files).not.toContain('apps/cli/test/usage.test.ts');
  expect(ownServers).toContain('apps/server/test/several-nodes.waiting.test.ts');
  expect(files.filter((file) => ownServers.includes(file))).toEqual([]);
});

it('every end-to-end test gives its services the database and bucket of the run', () => {
  const { files } = endToEndFiles();
  const own = files.filter((file) => {
    const text = readFileSync(ROOT + file, 'utf8');
    return text.includes('MDS_DATA_DIR:') && !text.includes('ownBackends');
  });
  expect(own).toEqual([]);
});
