import { programOnPath } from '@mds/transcode';
import { describe, test } from 'vitest';

/** Where the first of these programs of the system is; null where this machine has none of them. */
export function findSystemProgram(...names: string[]): string | null {
  return names.map(programOnPath).find((path) => path !== null) ?? null;
}

type RunTest = (title: string, run: () => Promise<void>) => void;

/**
 * `test`, or where a program is missing a skipped one that says so in its name: what did not run must be seen. The continuous
 * integration installs these programs, so there every one of them runs.
 */
export function testWith(program: string | null, called: string): RunTest {
  if (program !== null) return (title, run) => test(title, run);
  return (title, run) => {
    // Skipped for want of a program, and for nothing else: its name says which.
    test.skip(`${title} [needs ${called}, which is not on this machine]`, run);
    process.stderr.write(`\nSkipped, as ${called} is not on this machine: ${title}\n`);
  };
}

/** The same for a group of tests. */
export function describeWith(program: string | null, called: string): (title: string, tests: () => void) => void {
  if (program !== null) return (title, tests) => describe(title, tests);
  return (title, tests) => {
    // As above.
    describe.skip(`${title} [needs ${called}, which is not on this machine]`, tests);
    process.stderr.write(`\nSkipped, as ${called} is not on this machine: ${title}\n`);
  };
}
