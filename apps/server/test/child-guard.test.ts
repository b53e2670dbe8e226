import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { expect, it } from 'vitest';

const MODULE = new URL('./support/child-guard.ts', import.meta.url).href;

/** Starts a process that guards a child. @returns the process id of the child */
async function startHolder(): Promise<{ holder: ChildProcess; childPid: number }> {
  const script = `
    import { spawn } from 'node:child_process';
    import { endWithParent } from ${JSON.stringify(MODULE)};
    const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
    endWithParent(child);
    console.log(child.pid);
  `;
  const holder = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], {
    ...{ detached: true, stdio: ['ignore', 'pipe', 'inherit'] as const },
  });
  const [line] = (await once(createInterface({ input: holder.stdout }), 'line')) as [string];
  return { holder, childPid: Number(line) };
}

it.each(['SIGTERM', 'SIGKILL'] as const)('a child of a test ends with it after %s', async (signal) => {
  const { holder, childPid } = await startHolder();
  const exited = once(holder, 'exit');
  process.kill(childPid, 0);
  holder.kill(signal);
  await exited;
  await expect.poll(() => lives(childPid), { timeout: 10_000 }).toBe(false);
});

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}
