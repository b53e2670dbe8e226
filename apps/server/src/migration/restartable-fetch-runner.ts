import type { FetchRunner } from '../fetches/fetch-runner.ts';

/** A runner that may be started again after it was stopped: each start makes another one. */
export function createRestartableFetchRunner(make: () => FetchRunner): FetchRunner {
  let runner = make();
  let isUsed = false;
  return {
    start() {
      if (isUsed) runner = make();
      isUsed = true;
      return runner.start();
    },
    stop: (options) => runner.stop(options),
    wake: () => runner.wake(),
    canceled: (id) => runner.canceled(id),
    settled: (id, options) => runner.settled(id, options),
  };
}
