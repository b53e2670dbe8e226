import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const FAULTS = Array.from({ length: 25 }, (_, index) => index + 1);

/**
 * A title that bears the number of a fault. It stands after `it(`, `describe(` and their kin, after the table of an `each`, or on a line
 * of its own; `invariant 6, ` may precede it.
 */
const TITLE =
  /^[ \t]*(?:(?:describe\w*|it|test)\b.*\(|.*\]\)\()?['"`](?:invariant \d+, )?fault (\d+)(?: \(engine\))?: /gm;

let document: string;
/** Each fault with each file that has a test of it, as a line of the list in the document. */
let tested: string[];
beforeAll(async () => {
  document = await readFile(`${root}docs/faults.md`, 'utf8');
  const found: { fault: number; path: string }[] = [];
  for (const folder of ['apps', 'packages']) {
    for (const file of await readdir(`${root}${folder}`, { recursive: true })) {
      if (!file.endsWith('.test.ts') || file.includes('node_modules')) continue;
      const path = `${folder}/${file}`;
      const text = await readFile(root + path, 'utf8');
      const faults = new Set([...text.matchAll(TITLE)].map(([, fault]) => Number(fault)));
      for (const fault of faults) found.push({ fault, path });
    }
  }
  found.sort((a, b) => a.fault - b.fault || (a.path < b.path ? -1 : 1));
  tested = found.map(({ fault, path }) => `- ${fault}: \`${path}\``);
});

describe('docs/faults.md is true', () => {
  it('has each fault once, in order, with its outcome', () => {
    const rows = [...document.matchAll(/^\| (\d+) +\| (.+?) +\| (.+?) +\|$/gm)];
    expect(rows.map(([, number]) => Number(number))).toEqual(FAULTS);
    expect(rows.filter(([, , , outcome = '']) => outcome.startsWith('not yet'))).toEqual([]);
  });

  it('every fault has a test that bears its number, and no test bears another', () => {
    const numbers = tested.map((line) => Number.parseInt(line.slice(2), 10));
    expect([...new Set(numbers)]).toEqual(FAULTS);
  });

  it('lists every test file of each fault, and no other', () => {
    expect(document.match(/^- \d+: .*$/gm)).toEqual(tested);
  });
});
