import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';

const autocannon = createRequire(import.meta.url).resolve('autocannon');

/** Kept connections of every load. */
export const connections = 16;

/** What the load maker saw. */
export interface Load {
  readonly requestsPerSecond: number;
  /** Answers that were no 2xx, errors and timeouts. */
  readonly failures: number;
}

/** Asks for `url` over kept connections, by autocannon in a process of its own, for so many seconds; for `range` of it where given. */
export async function load(url: string, seconds: number, range?: string): Promise<Load> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      ...[autocannon, '--json', '--no-progress', '-c', String(connections), '-d', String(seconds)],
      ...(range === undefined ? [] : ['-H', `Range=${range}`]),
      url,
    ],
    { maxBuffer: 16 * 2 ** 20 },
  );
  const { requests, non2xx, errors, timeouts } = JSON.parse(stdout) as {
    requests: { average: number };
    non2xx: number;
    errors: number;
    timeouts: number;
  };
  return { requestsPerSecond: requests.average, failures: non2xx + errors + timeouts };
}
