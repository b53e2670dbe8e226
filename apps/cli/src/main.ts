#!/usr/bin/env node
import { Interruption } from './io.ts';
import { run } from './program.ts';

const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    const reason = new Interruption(signal);
    // Asked twice: the first time there was something to put in order, now there is no patience for it.
    if (interruption.signal.aborted) process.exit(reason.exitCode);
    interruption.abort(reason);
  });
}
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // Who reads has seen enough (`mds media list | head`): nothing is wrong, and nobody is left to tell.
    if (error.code === 'EPIPE') process.exit(0);
    if (stream === process.stdout) process.stderr.write(`error: The output cannot be written: ${error.message}.\n`);
    process.exit(1);
  });
}

const exitCode = await run(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  stdin: process.stdin,
  env: process.env,
  cwd: process.cwd(),
  signal: interruption.signal,
});
// Not process.exit alone: what a slow pipe has not taken yet would be lost.
process.stdout.write('', (lost) => {
  // The error's own event says what was lost, and ends the program.
  if (!lost) process.stderr.write('', () => setImmediate(() => process.exit(exitCode)));
});
