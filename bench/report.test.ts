import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defineBenchmark } from './benchmark.ts';
import { passes, type Result, resultText, updateDocument, withSection, writeResult } from './report.ts';
import { exactRatio } from './statistics.ts';

const benchmark = defineBenchmark({
  name: 'sample',
  what: 'some work',
  against: 'other work',
  goals: { time: { says: 'time', atMost: 0.6 }, likeness: { says: 'likeness', atLeast: 1 } },
  needs: [],
  run: () => Promise.reject(new Error('not run here')),
});

function result(time: number, likeness = 1, problems: string[] = []): Result {
  return {
    benchmark,
    outcome: {
      ratios: { time: exactRatio(time, 1), likeness: exactRatio(likeness, 1) },
      tables: [{ title: 'times', head: ['side', 'ms'], rows: [['a|b', '1']] }],
      problems,
      notes: [],
    },
    machine: { cpu: 'a CPU', cores: 2, memoryGib: 4, system: 'Linux', commit: 'abc1234', versions: { node: '20.0.0' } },
    command: 'npm run bench -- sample',
    measuredAt: '2026-01-31T08:15:00.000Z',
    rounds: 5,
    quick: false,
    seconds: 1,
  };
}

describe('verdicts', () => {
  test('passes only if every goal is reached and every output is correct', () => {
    expect(passes(result(0.6))).toBe(true);
    expect(passes(result(0.61))).toBe(false);
    expect(passes(result(0.5, 0.99))).toBe(false);
    expect(passes(result(0.5, 1, ['an output is empty']))).toBe(false);
  });

  test('fails if a ratio could not be measured', () => {
    expect(passes(result(Number.NaN))).toBe(false);
  });

  test('the text names the failures', () => {
    expect(resultText(result(0.9, 1, ['an output is empty']))).toMatch(
      /0\.90 .*<= 0\.6 +FAIL[\s\S]*PROBLEM: an output/,
    );
  });
});

describe('docs/performance.md', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mds-bench-test-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  test('is created if it is missing, and its section is replaced the next time', async () => {
    const path = join(folder, 'docs', 'performance.md');
    await updateDocument(path, result(0.5));
    await updateDocument(path, result(0.4));
    const text = await readFile(path, 'utf8');
    expect(text.match(/<!-- bench:sample -->/g)).toHaveLength(1);
    expect(text).toMatch(/\| time +\| +0\.40 \| +exact \| +<= 0\.6 \| +pass \|/);
    expect(text).not.toContain('0.50');
    expect(text).toContain('`npm run bench -- sample`');
    expect(text).toContain('a CPU, 2 cores');
  });

  test('keeps the text around the marks', () => {
    const before = 'Ahead.\n\n<!-- bench:sample -->\nold\n<!-- /bench:sample -->\n\nBehind.\n';
    const after = withSection(before, result(0.5));
    expect(after).toMatch(/^Ahead\.\n\n<!-- bench:sample -->\nSome work[\s\S]*<!-- \/bench:sample -->\n\nBehind\.\n$/);
    expect(after).not.toContain('old');
    expect(after).toContain('a\\|b');
  });

  test('the JSON holds every figure', async () => {
    const path = await writeResult(folder, result(0.5));
    const json = JSON.parse(await readFile(path, 'utf8')) as {
      passes: boolean;
      outcome: { ratios: { time: { value: number } } };
    };
    expect(json.passes).toBe(true);
    expect(json.outcome.ratios.time.value).toBe(0.5);
  });
});
