import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';

const autocannon = createRequire(import.meta.url).resolve('autocannon');

/** The number of kept connections of every load. */
export const connections = 16;

/** The result of a load. */
export interface Load {
  readonly requestsPerSecond: number;
  /** Errors, timeouts, and answers other than 2xx. */
  readonly failures: number;
}

/** Requests `url`, or a `range` of it, over kept connections for `seconds`, by autocannon in its own process. */
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
