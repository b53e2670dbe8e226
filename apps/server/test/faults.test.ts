import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const FAULTS = 24;

/** A test's title that bears the number of a fault, as it stands in its file. */
interface Shown {
  fault: number;
  file: string;
  title: string;
}

/** `it(`, `describe(` and its kin, or the end of a table before them, or a line of its own; `invariant 6, ` may stand before. */
const TITLES =
  /^[ \t]*(?:(?:describe\w*|it|test)\b.*\(|.*\]\)\()?(['`"])(?:invariant \d+, )?fault (\d+)(?: \(engine\))?: (.*?)\1,/gm;

let document: string;
let titles: Shown[];
beforeAll(async () => {
  document = await readFile(`${root}docs/faults.md`, 'utf8');
  titles = [];
  for (const folder of ['apps', 'packages']) {
    for (const file of await readdir(`${root}${folder}`, { recursive: true })) {
      if (!file.endsWith('.test.ts') || file.includes('node_modules')) continue;
      const path = `${folder}/${file}`;
      for (const [, , fault, title = ''] of (await readFile(root + path, 'utf8')).matchAll(TITLES)) {
        titles.push({ fault: Number(fault), file: path, title });
      }
    }
  }
});

describe('docs/faults.md tells the truth', () => {
  it('has each fault once, in order, with what happens', () => {
    const rows = [...document.matchAll(/^\| (\d+) +\| (.+?) +\| (.+?) +\|$/gm)];
    expect(rows.map(([, number]) => Number(number))).toEqual(Array.from({ length: FAULTS }, (_, index) => index + 1));
    expect(rows.filter(([, , , happens = '']) => happens.startsWith('not yet'))).toEqual([]);
  });

  it('has a test for each fault, which bears its number', () => {
    const tested = new Set(titles.map(({ fault }) => fault));
    const untested = Array.from({ length: FAULTS }, (_, index) => index + 1).filter((fault) => !tested.has(fault));
    expect(untested).toEqual([]);
    expect([...tested].filter((fault) => fault < 1 || fault > FAULTS)).toEqual([]);
  });

  it('names tests that are there, and at least one of each fault', () => {
    const list = [...document.matchAll(/^- (\d+): `([^`]+)`: (.+)$/gm)];
    const named = list.map(([, fault, file = '', title = '']): Shown => ({ fault: Number(fault), file, title }));
    expect(named.filter((shown) => !titles.some((known) => isSame(shown, known)))).toEqual([]);
    const missing = titles.filter(({ fault }) => !named.some((shown) => shown.fault === fault));
    expect(missing).toEqual([]);
    expect(named.map(({ fault }) => fault)).toEqual(named.map(({ fault }) => fault).sort((a, b) => a - b));
  });
});

function isSame(a: Shown, b: Shown): boolean {
  return a.fault === b.fault && a.file === b.file && a.title === b.title;
}
