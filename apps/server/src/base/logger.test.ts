import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);

it('logs warnings of Node and of packages as JSON lines only', async () => {
  const script = `
    const { createLogger, logProcessWarnings } = await import(${JSON.stringify(fileURLToPath(new URL('./logger.ts', import.meta.url)))});
    logProcessWarnings(createLogger('info'));
    process.emitWarning('soon gone', 'DeprecationWarning', 'DEP9999');
  `;
  const argv = ['--conditions=@mds/source', '--import', 'tsx', '--input-type=module', '--eval', script];
  const { stderr } = await run(process.execPath, argv);
  expect(
    stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toMatchObject([{ level: 40, msg: 'soon gone', err: { name: 'DeprecationWarning', code: 'DEP9999' } }]);
});
