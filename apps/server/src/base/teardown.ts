import type { Logger } from './logger.ts';

/** The steps that stop the parts that a composition has started. */
export interface Teardown {
  add(step: () => unknown): void;
  /** Runs each step once, the last one first, even if some fail. @throws AggregateError of those that failed */
  run(): Promise<void>;
}

/** @param what the name of the stopped parts, for the error: `parts of the service` */
export function createTeardown(what: string): Teardown {
  const steps: (() => unknown)[] = [];
  return {
    add(step) {
      steps.push(step);
    },
    async run() {
      const errors: unknown[] = [];
      for (const step of steps.splice(0).reverse()) {
        try {
          await step();
        } catch (error) {
          errors.push(error);
        }
      }
      if (errors.length > 0) throw new AggregateError(errors, `${what} did not stop in good order`);
    },
  };
}

/** Starts parts. If one fails, those before it are stopped. */
export async function startAll<T>(teardown: Teardown, logger: Logger, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    await teardown
      .run()
      .catch((cause: unknown) => logger.error({ err: cause }, 'a part did not stop after a failed start'));
    throw error;
  }
}
