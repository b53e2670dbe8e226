import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@mds/client';
import { expect, it } from 'vitest';
import { png } from './support/pictures.ts';
import { spawnService } from './support/service-process.ts';

it('the service runs from source, as in `npm run dev`, and renders a picture', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mds-source-'));
  // Warnings of Node.js must be log lines as soon as there is a log.
  const warn = "--import=data:text/javascript,setInterval(()=>process.emitWarning('soon%20gone'),500).unref()";
  const service = await spawnService({ dataDir: join(folder, 'data'), built: false, env: { NODE_OPTIONS: warn } });
  try {
    const client = createClient({ baseUrl: service.url, token: service.token });
    const { media } = await client.control.media.ingest(png(1, 800, 600));
    await client.control.media.waitUntilReady(media.id, { timeoutMs: 60_000 });
    const thumb = await fetch(`${service.url}/media/${media.id}/thumb.webp`);
    expect([thumb.status, thumb.headers.get('content-type')]).toEqual([200, 'image/webp']);
    const logged = `"pid":${service.child.pid},"err":{"type":"Error","message":"soon gone"`;
    await expect.poll(service.stderr, { timeout: 10_000 }).toContain(logged);
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
  } finally {
    await service.end('SIGKILL');
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
});
