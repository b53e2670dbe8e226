import { appendFile, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createPathJournal, type KnownPath, type PathJournal } from './path-journal.ts';
import { resourceOf } from './scripted-origin.fixture.ts';

const ORIGIN = 'http://origin.test';
const MEDIA_ID = 'med_01k0c4s6q8y2v4w6x8z0a2c4e6';

let folder: string;
let file: string;
let started: PathJournal[];
beforeEach(async () => {
  started = [];
  folder = await mkdtemp(join(tmpdir(), 'mds-journal-'));
  file = join(folder, 'known-paths.jsonl');
});
afterEach(async () => {
  for (const journal of started) await journal.stop();
  await rm(folder, { recursive: true });
});

const journalOf = (originUrl = ORIGIN, maxExcessBytes = 1_000_000, logger = pino({ level: 'silent' })) => {
  const journal = createPathJournal({ file, originUrl, maxExcessBytes, logger });
  started.push(journal);
  return journal;
};
const knownOf = (name: string, content = name): KnownPath => ({
  at_ms: 1_800_000_000_000,
  base_url: 'http://edge.test',
  resource: resourceOf(`/media/${MEDIA_ID}/${name}.json`, content),
});
const names = (found: KnownPath[]) => found.map(({ resource }) => resource.path.slice(38, -5));
/** Applies `act` to a journal and waits until it is written, but does not stop the journal. */
async function crashAfter(act: (journal: ReturnType<typeof journalOf>) => void, journal = journalOf()) {
  journal.start(() => []);
  act(journal);
  journal.forget('/media/none');
  await journal.forgotten();
}

describe('the journal of known paths', () => {
  it('survives a crash: the latest entry of each path, in order, without removed ones', async () => {
    await crashAfter((journal) => {
      for (const name of ['a', 'b', 'c', 'd']) journal.keep(knownOf(name));
      journal.keep(knownOf('a', 'newer'));
      journal.forget(knownOf('c').resource.path);
    });
    const found = await journalOf().read();
    expect(names(found)).toEqual(['b', 'd', 'a']);
    expect(found[2]).toEqual(knownOf('a', 'newer'));
  });

  it('reports a removal only after it is in the file', async () => {
    const journal = journalOf();
    journal.start(() => []);
    journal.keep(knownOf('a'));
    await expect.poll(async () => names(await journalOf().read())).toEqual(['a']);
    expect(journal.hasForgotten).toBe(true);
    journal.forgetAll();
    expect(journal.hasForgotten).toBe(false);
    await journal.forgotten();
    expect([journal.hasForgotten, await journalOf().read()]).toEqual([true, []]);
    await journal.stop();
  });

  it('is read up to a truncated last line, and continues after it', async () => {
    await crashAfter((journal) => journal.keep(knownOf('a')));
    const whole = await readFile(file, 'utf8');
    await appendFile(file, whole.split('\n')[1]?.slice(0, 80) ?? '');
    const next = journalOf();
    const found = await next.read();
    expect(names(found)).toEqual(['a']);
    await crashAfter((journal) => {
      for (const known of found) journal.keep(known);
      journal.keep(knownOf('b'));
    }, next);
    expect(names(await journalOf().read())).toEqual(['a', 'b']);
  });

  it('is ignored if a line in the middle is damaged, as it may have been a purge', async () => {
    await crashAfter((journal) => {
      journal.keep(knownOf('a'));
      journal.forget(knownOf('a').resource.path);
      journal.keep(knownOf('b'));
    });
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace('"forget":"/media/med', '"forget":"/media/mad'));
    expect(await journalOf().read()).toEqual([]);
  });

  it('is ignored if it belongs to another origin, and is empty without a file', async () => {
    expect(await journalOf().read()).toEqual([]);
    await crashAfter((journal) => journal.keep(knownOf('a')));
    expect(await journalOf('http://another.test').read()).toEqual([]);
  });

  it('does not fill the disk: the file is rewritten, including concurrent changes', async () => {
    const all = new Map<string, KnownPath>();
    const journal = journalOf(ORIGIN, 50_000);
    journal.start(() => all.values());
    let largest = 0;
    for (let n = 0; n < 300; n += 1) {
      for (const name of ['a', 'b', `c${n % 10}`]) {
        const known = knownOf(name, `${n}`.repeat(100));
        all.set(name, known);
        journal.keep(known);
      }
      journal.forget('/media/none');
      await journal.forgotten();
      largest = Math.max(largest, (await stat(file)).size);
    }
    await journal.stop();
    // The 12 paths need about 800 bytes each. All lines together would have about 700,000 bytes.
    expect(largest).toBeLessThan(100_000);
    const found = await journalOf().read();
    expect(new Map(found.map((known) => [known.resource.path, known]))).toEqual(
      new Map([...all.values()].map((known) => [known.resource.path, known])),
    );
  });

  it('is removed if it cannot be written, so that no purged path comes back', async () => {
    const lines: string[] = [];
    const journal = journalOf(ORIGIN, 1, pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) }));
    await crashAfter((opened) => opened.keep(knownOf('a')), journal);
    expect(names(await journalOf().read())).toEqual(['a']);
    // The file is above its limit, so the next line rewrites it, and the rewrite fails.
    await mkdir(`${file}.tmp`);
    journal.forget(knownOf('a').resource.path);
    await journal.forgotten();
    expect(await journalOf().read()).toEqual([]);
    await expect(stat(file)).rejects.toMatchObject({ code: 'ENOENT' });
    expect(lines.join('')).toContain('known paths cannot be stored');
  });
});
