import { Agent, get } from 'node:http';

/** What a flood of requests was answered with. */
export interface FloodReport {
  /** Answers by status; `0`: none came. */
  statuses: Record<number, number>;
  /** Milliseconds, of the answers with 200 to what was asked after the first quarter: by then all connections are there. */
  p50Ms: number;
  p99Ms: number;
  /** Answers with 503 that did not say when to come back, or were no problem document with the code `overloaded`. */
  badRefusals: number;
}

// A process of its own, so that its work is not on the event loop of the service that it floods:
// `flood.ts URL CONNECTIONS MS`. Each connection asks again as soon as it is answered; `*` in the URL is a number that never comes twice.
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
times.sort((a, b) => a - b);
const at = (part: number) => times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? Number.NaN;
const report: FloodReport = { statuses, p50Ms: at(0.5), p99Ms: at(0.99), badRefusals };
process.stdout.write(JSON.stringify(report));
