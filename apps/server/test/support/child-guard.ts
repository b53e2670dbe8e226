import { type ChildProcess, spawn } from 'node:child_process';

/**
 * A line on its input dismisses it. The end of its input means that the parent is gone: it sends the signal, kills the process after
 * ten seconds, and removes the folder.
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
 * Ends a child when this process ends, even by SIGKILL, so that an aborted run leaves nothing running. The guard has a session of its
 * own: a signal to the group of the tests does not reach it first.
 * @param options.signal ends the child in better order than `SIGKILL`
 * @param options.folder is removed with it, unless the child ends first
 */
export function endWithParent(child: ChildProcess, options: { signal?: 'KILL' | 'QUIT'; folder?: string } = {}): void {
  const { signal = 'KILL', folder = '' } = options;
  if (child.pid === undefined) return;
  const guard = spawn('/bin/sh', ['-c', GUARD, 'guard', String(child.pid), signal, folder], {
    ...{ detached: true, cwd: '/' },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  guard.stdin.on('error', () => undefined);
  child.once('exit', () => guard.stdin.end('dismissed\n'));
}
