import { spawn } from 'node:child_process';

/** Tasks that misbehave in every way that a decoder can, for the tests of the isolate. */
export const tasks = {
  echo: async (input: unknown) => ({ input, pid: process.pid, cwd: process.cwd(), env: process.env }),

  crash: async ({ signal }: { signal: NodeJS.Signals }) => {
    process.kill(process.pid, signal);
    return new Promise(() => undefined);
  },

  exit: async ({ code }: { code: number }) => process.exit(code),

  fail: async () => {
    throw Object.assign(new RangeError('too far'), { code: 'far' });
  },

  /** Blocks the main thread, as WebAssembly does: no timer fires, no message arrives. */
  spin: async () => {
    for (;;);
  },

  /** Runs an endless ffmpeg, as a render does, and reports its process id. With `spin`, it then blocks the main thread. */
  encode: async ({ ffmpeg, spin }: { ffmpeg: string; spin: boolean }, report: (progress: unknown) => void) => {
    const argv = ['-nostdin', '-v', 'quiet', '-f', 'lavfi', '-i', 'testsrc=s=64x36,realtime', '-f', 'null', '-'];
    const child = spawn(ffmpeg, argv, { stdio: 'ignore' });
    await new Promise((resolve) => child.once('spawn', resolve));
    report(child.pid);
    // The report must be sent before the main thread blocks.
    if (spin) setTimeout(() => tasks.spin(), 100);
    return new Promise(() => undefined);
  },

  wait: async ({ ms }: { ms: number }, report: (progress: unknown) => void) => {
    report('begun');
    await new Promise((resolve) => setTimeout(resolve, ms));
    return 'waited';
  },

  hoard: async ({ bytes }: { bytes: number }) => {
    const held: Buffer[] = [];
    for (let total = 0; total < bytes; total += 2 ** 24) held.push(Buffer.alloc(2 ** 24, 1));
    // The main thread stays busy, as a decoder's would.
    for (;;) held[0]?.fill(2);
  },
};
