import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Need } from '../benchmark.ts';
import { root } from '../needs.ts';

const entry = 'apps/server/dist/main.js';

/** The built service: what ships is what is measured. */
export const builtService: Need = { file: entry, hint: 'build it with `npm run build`.' };

/** A service in a process of its own. */
export interface RunningService {
  readonly url: string;
  /** Of the service itself; its worker and engine children descend from it. */
  readonly pid: number;
  /** From the moment it was spawned to its word that it listens. */
  readonly startMs: number;
  /** The operator's token. */
  token(): Promise<string>;
  stop(): Promise<void>;
}

/**
 * Starts the built service on a free port with `dataDir` and, beside the defaults, these settings. Throws with what it said on
 * stderr where it does not come up.
 */
export async function startService(
  dataDir: string,
  settings: Readonly<Record<`MDS_${string}`, string>> = {},
): Promise<RunningService> {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('MDS_') && name !== 'NODE_OPTIONS');
  const start = performance.now();
  const child = spawn(process.execPath, [join(root, entry)], {
    env: { ...Object.fromEntries(own), MDS_DATA_DIR: dataDir, MDS_PORT: '0', MDS_LOG_LEVEL: 'warn', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit');
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4_000);
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const url = listeningAt(line);
    if (url === null) continue;
    return {
      url,
      pid: child.pid ?? 0,
      startMs: performance.now() - start,
      token: async () => (await readFile(join(dataDir, 'control-token'), 'utf8')).trim(),
      async stop() {
        child.kill('SIGTERM');
        await exited;
      },
    };
  }
  throw new Error(`The service ended before it listened. ${said}`);
}

function listeningAt(line: string): string | null {
  try {
    const said = JSON.parse(line) as { event?: string; url?: string };
    return said.event === 'listening' ? (said.url ?? null) : null;
  } catch {
    return null;
  }
}
