import { beforeEach, expect, it } from 'vitest';
import { Database } from './driver.ts';
import { createGroupCommit, type GroupCommit } from './group-commit.ts';

let statements: string[];
let client: Database;
let commits: GroupCommit;
beforeEach(() => {
  statements = [];
  client = new Database(':memory:', { verbose: (statement) => statements.push(String(statement)) });
  client.exec('CREATE TABLE notes (id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE)');
  commits = createGroupCommit(client);
});

const insert = (statement: string, ...values: string[]) => client.prepare(statement).run(...values).lastInsertRowid;
const note = (text: string) => () => insert('INSERT INTO notes (text) VALUES (?)', text);
const notes = () => client.prepare('SELECT text FROM notes ORDER BY id').pluck().all();
const committed = () => statements.filter((statement) => statement === 'COMMIT').length;

it('commits all writes of one turn together, in order, and later ones separately', async () => {
  expect(await Promise.all(['a', 'b', 'c'].map((text) => commits.write(note(text))))).toEqual([1, 2, 3]);
  expect(committed()).toBe(1);
  await commits.write(note('d'));
  expect([notes(), committed()]).toEqual([['a', 'b', 'c', 'd'], 2]);
});

it('rolls back all writes of failed work, and none of the others', async () => {
  const outcomes = await Promise.allSettled([
    commits.write(note('a')),
    commits.write(() => {
      note('half')();
      throw new Error('changed its mind');
    }),
    commits.write(note('a')),
    commits.write(note('b')),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
  expect(outcomes[1]).toMatchObject({ reason: { message: 'changed its mind' } });
  expect(outcomes[2]).toMatchObject({ reason: { code: 'SQLITE_CONSTRAINT_UNIQUE' } });
  expect([notes(), committed()]).toEqual([['a', 'b'], 1]);
});

it('fault 17: a write that fills the file fails alone, as the others are repeated', async () => {
  client.pragma('max_page_count = 20');
  const outcomes = await Promise.allSettled([
    commits.write(note('a')),
    commits.write(note('x'.repeat(200_000))),
    commits.write(note('b')),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(outcomes[1]).toMatchObject({ reason: { code: 'SQLITE_FULL' } });
  expect(notes()).toEqual(['a', 'b']);
});

it('repeats a failed commit for each write, so that only the bad one fails', async () => {
  client.pragma('foreign_keys = ON');
  client.exec('CREATE TABLE parts (note INTEGER REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED)');
  const orphan = () => insert('INSERT INTO parts (note) VALUES (99)');
  const outcomes = await Promise.allSettled([commits.write(note('a')), commits.write(orphan)]);
  // Together both fail; separately the valid one succeeds.
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
  expect(outcomes[1]).toMatchObject({ reason: { code: 'SQLITE_CONSTRAINT_FOREIGNKEY' } });
  expect(notes()).toEqual(['a']);
});

it('rejects writes that come after the end of the connection, and waits for none of them', async () => {
  client.close();
  for (const isSynced of [true, false]) {
    await expect(commits.write(note('late'), { isSynced, isUrgent: true })).rejects.toThrow('not open');
  }
  await commits.idle();
});
