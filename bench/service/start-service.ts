import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Need } from '../benchmark.ts';
import { root } from '../needs.ts';

const entry = 'apps/server/dist/main.js';

/** The built service: the benchmarks measure what ships. */
export const builtService: Need = { file: entry, hint: 'build it with `npm run build`.' };

/** A service in its own process. */
export interface RunningService {
  readonly url: string;
  /** The process id of the service; its worker and engine children are descendants. */
  readonly pid: number;
  /** From the spawn of the process to its log line `listening`. */
  readonly startMs: number;
  /** The operator's token. */
  token(): Promise<string>;
  stop(): Promise<void>;
}

/**
 * Starts the built service on a free port with `dataDir` and these settings.
 * @throws with its stderr if it does not start
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
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-4_000);
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
  throw new Error(`The service ended before it listened. ${output}`);
}

function listeningAt(line: string): string | null {
  try {
    const output = JSON.parse(line) as { event?: string; url?: string };
    return output.event === 'listening' ? (output.url ?? null) : null;
  } catch {
    return null;
  }
}
