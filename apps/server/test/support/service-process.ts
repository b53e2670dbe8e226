import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { ownBackends } from './backends.ts';
import { endWithParent } from './child-guard.ts';
import { beginWithKnownFormats } from './known-formats.ts';
import { nodeArguments } from './programs-under-test.ts';

/** The built program; present after `npm run build`. */
export const BUILT = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

/** A whole service in a process of its own, as an operator starts it. */
export interface ServiceProcess {
  url: string;
  token: string;
  child: ChildProcess;
  /** Everything that it wrote to stderr so far. */
  stderr(): string;
  /** Sends the signal and resolves with exit code and signal once it is gone. */
  end(signal: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** A service that ended before it listened. */
export class ServiceDidNotStart extends Error {
  readonly code: number | null;
  readonly stderr: string;
  constructor(code: number | null, stderr: string) {
    super(`The service ended with ${code} before it listened:\n${stderr}`);
    this.name = 'ServiceDidNotStart';
    this.code = code;
    this.stderr = stderr;
  }
}

/**
 * Starts `main` on a free port.
 * @param options.built the built program, or the source; default: that of this run (`programs-under-test.ts`)
 * @param options.firstStart starts on an empty folder, as an operator does, and proves the formats
 * @throws ServiceDidNotStart with exit code and stderr
 */
export async function spawnService(options: {
  dataDir: string;
  built?: boolean | undefined;
  env?: Record<string, string>;
  firstStart?: boolean;
}): Promise<ServiceProcess> {
  const settings = { ...(await ownBackends(options.dataDir, options.env)), ...options.env };
  if (!options.firstStart) await beginWithKnownFormats(options.dataDir, settings);
  const { PATH = '', HOME = '', TMPDIR } = process.env;
  const child = spawn(process.execPath, nodeArguments('server', options.built), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH,
      HOME,
      ...(TMPDIR ? { TMPDIR } : {}),
      MDS_DATA_DIR: options.dataDir,
      MDS_PORT: '0',
      MDS_LOG_LEVEL: 'warn',
      ...settings,
    },
  });
  endWithParent(child);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  // Later than `exit`: the pipe may still hold output then.
  const closed = once(child, 'close') as Promise<[number | null]>;
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const message = JSON.parse(line) as { event: string; url: string };
      if (message.event === 'listening') resolve(message.url);
    });
    closed.then(([code]) => reject(new ServiceDidNotStart(code, stderr)), reject);
  });
  const tokenFile = join(options.dataDir, 'control-token');
  return {
    url,
    token: existsSync(tokenFile) ? readFileSync(tokenFile, 'utf8').trim() : '',
    child,
    stderr: () => stderr,
    async end(signal) {
      child.kill(signal);
      const [code, by] = await ended;
      return { code, signal: by };
    },
  };
}
