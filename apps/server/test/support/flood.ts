import { Agent, get } from 'node:http';

/** The responses to a flood of requests. */
export interface FloodReport {
  /** Responses by status; `0`: no response. */
  statuses: Record<number, number>;
  /** Responses with 200 per second, after the first quarter: by then all connections are open. */
  perSecond: number;
  /**
   * How many of these waited at a time, on average (Little's law). Unlike milliseconds, that does not depend on the speed or load of the
   * machine.
   */
  waiting: number;
  /** Responses with 503 without Retry-After, or without a problem document with the code `overloaded`. */
  badRefusals: number;
}

// A process of its own, so that its work is not on the event loop of the service that it floods:
// `flood.ts URL CONNECTIONS MS`. Each connection sends a request after each response. `*` in the URL becomes a number that is never repeated.
const [url = '', connections = '', ms = ''] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: Number(connections) });
const statuses: Record<number, number> = {};
const times: number[] = [];
let badRefusals = 0;
let asked = 0;
const warm = performance.now() + Number(ms) / 4;
const end = performance.now() + Number(ms);

function ask(): Promise<void> {
  asked += 1;
  const began = performance.now();
  return new Promise((resolve) => {
    const count = (status: number) => {
      statuses[status] = (statuses[status] ?? 0) + 1;
      resolve();
    };
    get(url.replace('*', `${process.pid}-${asked}`), { agent }, (res) => {
      const status = res.statusCode ?? 0;
      let text = '';
      res.setEncoding('utf8').on('data', (more: string) => {
        text += more;
      });
      res.on('end', () => {
        if (status === 200 && began > warm) times.push(performance.now() - began);
        if (status === 503 && !(Number(res.headers['retry-after']) >= 1 && text.includes('"code":"overloaded"'))) {
          badRefusals += 1;
        }
        count(status);
      });
    }).on('error', () => count(0));
  });
}

await Promise.all(
  Array.from({ length: Number(connections) }, async () => {
    while (performance.now() < end) await ask();
  }),
);
agent.destroy();
const windowMs = Number(ms) - Number(ms) / 4;
const report: FloodReport = {
  statuses,
  perSecond: (times.length / windowMs) * 1_000,
  waiting: times.reduce((sum, one) => sum + one, 0) / windowMs,
  badRefusals,
};
process.stdout.write(JSON.stringify(report));
