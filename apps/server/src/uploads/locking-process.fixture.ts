import { createInterface } from 'node:readline';
import { AppError } from '../base/app-error.ts';
import { createLogger } from '../base/logger.ts';
import { openSqliteRepositories } from '../db/sqlite/open-repositories.ts';
import { createUploadLocker } from './upload-locker.ts';

/** A second process on a database, which takes the lock of an upload and says on its standard output what becomes of it. */
const [, , file = '', id = '', letsGo] = process.argv;
const { uploads } = openSqliteRepositories(file);
// It doubts sooner than those who watch it take it for dead.
const locker = createUploadLocker({ uploads, logger: createLogger('silent'), timing: { doubtMs: 500 } });
const say = (word: string) => process.stdout.write(`${word}\n`);
const lock = locker.newLock(id);
let asked = false;

await lock.lock(new AbortController().signal, async () => {
  if (asked) return;
  asked = true;
  say('asked');
  if (letsGo !== 'true') return;
  await lock.unlock();
  say('gave');
});
say('held');
createInterface({ input: process.stdin }).on('line', () => {
  locker.confirm(id).then(
    () => say('has it'),
    (error: unknown) => say(error instanceof AppError ? error.code : String(error)),
  );
});
