import { readdir, readFile } from 'node:fs/promises';
import { Event, MediaDetail, MediaExplanation } from '@mds/contract';
import { expect } from 'vitest';
import { openRepositoriesOf } from './backends.ts';
import type { ServiceFixture } from './service-fixture.ts';

/** Requests for video and audio to a whole service. */
export interface VideoService {
  upload(file: string | Buffer, filename: string, query?: string): Promise<Response>;
  /** Uploads and expects it to be accepted. @returns the media object's id */
  accept(file: string | Buffer, filename: string, query?: string): Promise<string>;
  control(path: string, init?: RequestInit): Promise<Response>;
  detail(id: string): Promise<MediaDetail>;
  explain(id: string): Promise<MediaExplanation>;
  /** Waits until the media object is ready or failed. */
  ended(id: string, timeoutMs?: number): Promise<MediaDetail>;
  /** Waits until a rendition is in a state. */
  rendition(id: string, name: string, state: string): Promise<void>;
  /** Process id of the worker. */
  workerPid(): Promise<number>;
  /** Command lines of the processes that work on this service's files. */
  programs(): Promise<string[]>;
}

export function videoService(service: ServiceFixture): VideoService {
  const control: VideoService['control'] = (path, init = {}) =>
    fetch(`${service.url}/control/v1${path}`, {
      ...init,
      headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${service.token}` },
    });
  const upload: VideoService['upload'] = async (file, filename, query = '') => {
    const body = typeof file === 'string' ? await readFile(file) : file;
    const name = encodeURIComponent(filename);
    return control(`/media?filename=${name}${query}`, { method: 'POST', body: new Uint8Array(body) });
  };
  const detail = async (id: string) => MediaDetail.parse(await (await control(`/media/${id}`)).json());

  return {
    upload,
    control,
    detail,
    async accept(...file) {
      const response = await upload(...file);
      const body = (await response.json()) as { id: string };
      expect([response.status, body]).toEqual([201, expect.objectContaining({ id: expect.any(String) })]);
      return body.id;
    },
    async explain(id) {
      return MediaExplanation.parse(await (await control(`/media/${id}/explain`)).json());
    },
    async ended(id, timeoutMs = 60_000) {
      await expect
        .poll(async () => (await detail(id)).status, { interval: 100, timeout: timeoutMs })
        .toMatch(/^(ready|failed)$/);
      return detail(id);
    },
    async rendition(id, name, state) {
      const states = async () => (await detail(id)).renditions.filter((r) => r.name === name).map((r) => r.state);
      await expect.poll(states, { interval: 30, timeout: 60_000 }).toContain(state);
    },
    async workerPid() {
      const repositories = await openRepositoriesOf(service.dataDir);
      try {
        const [worker] = await repositories.jobs.workers();
        if (!worker) throw new Error('There is no worker.');
        return worker.pid;
      } finally {
        await repositories.close();
      }
    },
    async programs() {
      const found: string[] = [];
      for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
        // A process may end meanwhile.
        const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
        if (/ff(mpeg|probe)/.test(line) && line.includes(service.dataDir)) found.push(line.replaceAll('\0', ' '));
      }
      return found;
    },
  };
}

/** Reads a stream of events until `enough` returns true. */
export async function readEvents(
  response: Response,
  enough: (events: readonly Event[]) => boolean,
  onEvent: (event: Event) => void = () => undefined,
): Promise<Event[]> {
  const events: Event[] = [];
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let pending = '';
  while (reader && !enough(events)) {
    const { value, done } = await reader.read();
    if (done) break;
    pending += value;
    const blocks = pending.split('\n\n');
    pending = blocks.pop() ?? '';
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data === undefined) continue;
      const event = Event.parse(JSON.parse(data));
      expect(/^event: (.*)$/m.exec(block)?.[1]).toBe(event.type);
      expect(/^id: (.*)$/m.exec(block)?.[1]).toBe('id' in event ? event.id : undefined);
      events.push(event);
      onEvent(event);
    }
  }
  await reader?.cancel();
  return events;
}
