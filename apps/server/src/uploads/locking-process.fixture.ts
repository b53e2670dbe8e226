import { createInterface } from 'node:readline';
import { AppError } from '../base/app-error.ts';
import { createLogger } from '../base/logger.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createUploadLocker } from './upload-locker.ts';

/** A second process on a database: it takes the lock of an upload and reports on its standard output. */
const [, , file = '', id = '', letsGo] = process.argv;
const { uploads } = openSqliteRepositories(file);
// It doubts its lock sooner than its watchers declare it dead.
const locker = createUploadLocker({ uploads, logger: createLogger('silent'), timing: { doubtMs: 500 } });
const report = (word: string) => process.stdout.write(`${word}\n`);
const lock = locker.newLock(id);
let asked = false;

await lock.lock(new AbortController().signal, async () => {
  if (asked) return;
  asked = true;
  report('asked');
  if (letsGo !== 'true') return;
  await lock.unlock();
  report('gave');
});
report('held');
createInterface({ input: process.stdin }).on('line', () => {
  locker.confirm(id).then(
    () => report('has it'),
    (error: unknown) => report(error instanceof AppError ? error.code : String(error)),
  );
});
