import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, type IncomingMessage, request } from 'node:http';
import type { RunningService } from './start-service.ts';

/** Sends files with a request each, `parallel` at a time, over kept connections. @returns milliseconds until all are acknowledged */
export async function sendFiles(
  { url }: RunningService,
  token: string,
  paths: readonly string[],
  parallel: number,
): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: parallel });
  const waiting = [...paths];
  const sender = async () => {
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      const body = await readFile(path);
      const headers = { authorization: `Bearer ${token}`, 'content-length': body.length };
      const sending = request(`${url}/control/v1/media`, { method: 'POST', agent, headers });
      const answered = once(sending, 'response') as Promise<[IncomingMessage]>;
      sending.end(body);
      const [response] = await answered;
      response.resume();
      await once(response, 'end');
      if (response.statusCode !== 201) throw new Error(`A file was answered ${response.statusCode}.`);
    }
  };
  const start = performance.now();
  try {
    await Promise.all(Array.from({ length: parallel }, sender));
    return performance.now() - start;
  } finally {
    agent.destroy();
  }
}
