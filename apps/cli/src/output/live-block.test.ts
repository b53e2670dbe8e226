import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import type { OutputStream } from '../io.ts';
import { createLiveBlock } from './live-block.ts';

/** A fake terminal with the text written to it so far. */
function terminal(columns: number): { stream: OutputStream; written(): string } {
  let text = '';
  const stream: OutputStream = new PassThrough().setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  Object.assign(stream, { isTTY: true, columns, rows: 24 });
  return { stream, written: () => text };
}

it('makes room for other output, and is drawn again below it', () => {
  const { stream, written } = terminal(80);
  const block = createLiveBlock(stream, () => ['one', 'two']);
  block.above(() => stream.write('first\n'));
  block.above(() => stream.write('second\n'));
  block.stop();
  const up = '\x1b[2F\x1b[J';
  expect(written()).toBe(`first\none\ntwo\n${up}second\none\ntwo\n${up}`);
});

it('counts the rows of its lines again after the window became narrower', () => {
  const { stream, written } = terminal(80);
  const block = createLiveBlock(stream, () => ['x'.repeat(70)]);
  block.above(() => undefined);
  stream.columns = 20;
  block.stop();
  expect(written().endsWith('\x1b[4F\x1b[J')).toBe(true);
});

it('escapes cursor movements in its lines', () => {
  const { stream, written } = terminal(80);
  const block = createLiveBlock(stream, () => ['a\x1b[9Ab']);
  block.above(() => undefined);
  block.stop();
  expect(written()).toBe('a\\x1b[9Ab\n\x1b[1F\x1b[J');
});

it('draws nothing without a terminal', () => {
  const stream = new PassThrough();
  const block = createLiveBlock(stream, () => ['one']);
  block.above(() => stream.write('first\n'));
  block.stop();
  expect(String(stream.read())).toBe('first\n');
});
