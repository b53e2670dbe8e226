import { type ChildProcess, spawn } from 'node:child_process';

/**
 * Waits for a line, which dismisses it, or for the end of its input, which comes with the end of whoever holds the other side. Then it
 * ends the process: first as it wants to be ended, and after ten seconds in any case.
 */
const GUARD = `
read -r dismissed && exit
kill "-$2" "$1"
tries=0
while kill -0 "$1" && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -KILL "$1"
[ -z "$3" ] || rm -rf "$3"
`;

/**
 * Has a child end when this process does, also when that is killed and can do nothing any more: a run that is cut off leaves nothing
 * running. The guard is in a session of its own, so that what is sent to the group of the tests does not reach it first.
 * @param options.signal what ends the child in better order than `SIGKILL`
 * @param options.folder goes with it, unless the child ends before us
 */
export function endWithUs(child: ChildProcess, options: { signal?: 'KILL' | 'QUIT'; folder?: string } = {}): void {
  const { signal = 'KILL', folder = '' } = options;
  if (child.pid === undefined) return;
  const guard = spawn('/bin/sh', ['-c', GUARD, 'guard', String(child.pid), signal, folder], {
    ...{ detached: true, cwd: '/' },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  guard.stdin.on('error', () => undefined);
  child.once('exit', () => guard.stdin.end('dismissed\n'));
}
