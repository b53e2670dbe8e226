#!/usr/bin/env node
import { Interruption } from './io.ts';
import { run } from './program.ts';

const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    const reason = new Interruption(signal);
    // The second signal: do not wait for the cleanup that the first one started.
    if (interruption.signal.aborted) process.exit(reason.exitCode);
    interruption.abort(reason);
  });
}
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // The reader has closed the pipe (`mds media list | head`). That is no error.
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
// process.exit alone would lose output that a slow pipe has not taken yet.
process.stdout.write('', (lost) => {
  // The stream's own error event reports the loss and ends the program.
  if (!lost) process.stderr.write('', () => setImmediate(() => process.exit(exitCode)));
});
