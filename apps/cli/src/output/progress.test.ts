import picocolors from 'picocolors';
import { describe, expect, it } from 'vitest';
import { displayWidth } from './display-width.ts';
import { enterState, startTransfer, transferLine } from './progress.ts';
import { humanBitrate, humanTiming, percent } from './quantities.ts';
import { wrap } from './wrap.ts';

const colours = picocolors.createColors(false);

function processing(progress: number | null, state = 'processing') {
  const transfer = startTransfer('holiday/clip.mp4', 1_000_000);
  enterState(transfer, state, progress);
  return transfer;
}

describe('a line of progress', () => {
  it('has a bar while the service reports its progress', () => {
    const transfer = processing(0.42);
    expect(transferLine(transfer, 80, transfer.sinceMs + 12_000, colours)).toBe(
      `holiday/clip.mp4           ${'━'.repeat(13)}${'─'.repeat(17)}   42%  processing  12s`,
    );
  });

  it('has no bar without progress, or after the next state began', () => {
    const transfer = processing(0.42);
    enterState(transfer, 'queued');
    expect(transferLine(transfer, 80, transfer.sinceMs, colours)).toBe('holiday/clip.mp4           queued');
  });

  it('counts the time of a state, not of the progress within it', () => {
    const transfer = processing(0.1);
    transfer.sinceMs -= 5_000;
    enterState(transfer, 'processing', 0.2);
    expect(transferLine(transfer, 80, Date.now(), colours)).toContain('processing  5s');
  });

  it.each([79, 60, 40, 30, 20, 14])('fits %i columns, whatever it shows', (width) => {
    for (const transfer of [
      processing(0.999),
      processing(null),
      processing(0.5, 'a state of a newer service that is long'),
    ]) {
      const line = transferLine(transfer, width, transfer.sinceMs + 3_600_000, colours);
      expect(displayWidth(line)).toBeLessThanOrEqual(width);
    }
    expect(transferLine(processing(0.999), width, Date.now(), colours)).toContain('99%');
  });
});

describe('quantities', () => {
  it.each([
    [0, '0 ms'],
    [999.4, '999 ms'],
    [999.6, '1.0 s'],
    [59_949, '59.9 s'],
    [59_950, '1m 00s'],
    [3_599_499, '59m 59s'],
    [3_599_500, '1h 00m'],
    [7_380_000, '2h 03m'],
  ])('%f ms are %s', (ms, text) => expect(humanTiming(ms)).toBe(text));

  it.each([
    [128_000, '128 kb/s'],
    [999_499, '999 kb/s'],
    [999_500, '1.0 Mb/s'],
    [4_210_000, '4.2 Mb/s'],
  ])('%i bits a second are %s', (bits, text) => expect(humanBitrate(bits)).toBe(text));

  it('100% is shown for finished work only', () => {
    expect([0, 0.004, 0.9999, 1, 1.2, -1].map(percent)).toEqual(['0%', '0%', '99%', '100%', '100%', '0%']);
  });
});

it('breaks text between words, and shortens words that are too long', () => {
  expect(wrap('one two three', 7)).toEqual(['one two', 'three']);
  expect(wrap('写真写真 a', 5)).toEqual(['写真…', 'a']);
  expect(wrap('', 5)).toEqual(['']);
});
