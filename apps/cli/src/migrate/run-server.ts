import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { CliError } from '../exit-codes.ts';
import type { Io } from '../io.ts';

/**
 * Runs the service's program, which is installed beside this one, with the same environment. Ctrl-C ends it too.
 * @returns the JSON that it prints
 * @throws CliError with its error message if it fails, or if it is not installed
 */
export async function runServer(io: Io, args: readonly string[]): Promise<unknown> {
  const { program, execArgv } = findServer();
  if (!existsSync(program)) {
    throw new CliError('The service is not installed beside this command.', {
      hints: ['Run it on a machine of the service, in its own folder, after `npm run build`.'],
    });
  }
  const child = spawn(process.execPath, [...execArgv, program, ...args], {
    cwd: io.cwd,
    env: io.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const stop = () => child.kill('SIGTERM');
  io.signal.addEventListener('abort', stop);
  try {
    const ended = new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve));
    const [code, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
    io.signal.throwIfAborted();
    if (code === 0) return JSON.parse(stdout);
    const [message = `The service's program ended with ${code}.`, ...hints] = stderr.trim().split('\n');
    throw new CliError(message, { hints });
  } finally {
    io.signal.removeEventListener('abort', stop);
  }
}

/** Finds the program: its source if this program runs from source. */
function findServer(): { program: string; execArgv: string[] } {
  const fromSource = import.meta.url.endsWith('.ts');
  const program = fileURLToPath(
    new URL(fromSource ? '../../../server/src/main.ts' : '../../../server/dist/main.js', import.meta.url),
  );
  const execArgv = fromSource ? ['--conditions=@mds/source', '--import', import.meta.resolve('tsx')] : [];
  return { program, execArgv };
}
