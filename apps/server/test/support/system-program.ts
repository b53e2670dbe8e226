import { programOnPath } from '@mds/transcode';
import { describe, test } from 'vitest';

/** The path of the first of these programs; null if this machine has none. */
export function findSystemProgram(...names: string[]): string | null {
  return names.map(programOnPath).find((path) => path !== null) ?? null;
}

type RunTest = (title: string, run: () => Promise<void>) => void;

/**
 * `test`, or a skipped one if a program is missing, which its name reports. CI installs these programs, so there all of them run.
 */
export function testWith(program: string | null, called: string): RunTest {
  if (program !== null) return (title, run) => test(title, run);
  return (title, run) => {
    // Skipped only because a program is missing.
    test.skip(`${title} [needs ${called}, which is not on this machine]`, run);
    process.stderr.write(`\nSkipped, as ${called} is not on this machine: ${title}\n`);
  };
}

/** `describe`, in the same way. */
export function describeWith(program: string | null, called: string): (title: string, tests: () => void) => void {
  if (program !== null) return (title, tests) => describe(title, tests);
  return (title, tests) => {
    // As above.
    describe.skip(`${title} [needs ${called}, which is not on this machine]`, tests);
    process.stderr.write(`\nSkipped, as ${called} is not on this machine: ${title}\n`);
  };
}
