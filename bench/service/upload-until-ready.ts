import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunningService } from './start-service.ts';

/** Often enough to be precise; more often, service and benchmark would spend their time on polls. */
export const pollMs = 50;

/** A file to send, and the time limit for it to become ready. */
export interface Upload {
  filename: string;
  contentType: string;
  bytes: Buffer;
  timeoutMs: number;
}

/** How long a media object took to become ready, and the number of its renditions. */
export interface Readiness {
  id: string;
  /** From the moment when the last byte was handed to the kernel. */
  ms: number;
  renditions: number;
}

/** Uploads a file and waits until the media object is `ready`. Throws if it fails or exceeds the time limit. */
export async function uploadUntilReady(
  { url }: RunningService,
  token: string,
  { filename, contentType, bytes, timeoutMs }: Upload,
): Promise<Readiness> {
  const authorization = `Bearer ${token}`;
  const upload = request(`${url}/control/v1/media?filename=${filename}`, {
    method: 'POST',
    headers: { authorization, 'content-type': contentType, 'content-length': bytes.length },
  });
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
  const sent = once(upload, 'finish');
  upload.end(bytes);
  await sent;
  const start = performance.now();
  const [response] = await answered;
  const { id } = (await jsonOf(response)) as { id: string };
  if (response.statusCode !== 201) throw new Error(`The upload was answered ${response.statusCode}.`);
  while (performance.now() - start < timeoutMs) {
    const detail = await fetch(`${url}/control/v1/media/${id}`, { headers: { authorization } });
    const { status, renditions } = (await detail.json()) as { status: string; renditions: { state: string }[] };
    if (status === 'ready') {
      const ms = performance.now() - start;
      return { id, ms, renditions: renditions.filter(({ state }) => state === 'ready').length };
    }
    if (status === 'failed') throw new Error(`The service could not process it: ${JSON.stringify(renditions)}`);
    await sleep(pollMs);
  }
  throw new Error(`${filename} was not ready after ${timeoutMs / 1000} s.`);
}

async function jsonOf(response: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString());
}
