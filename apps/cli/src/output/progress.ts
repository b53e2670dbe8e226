import type { Colours } from './colours.ts';
import { displayWidth, pad, truncate } from './display-width.ts';
import { printable } from './printable.ts';
import { humanBytes, humanDuration, percent } from './quantities.ts';

/** The progress of one file that is sent or received. */
export interface Transfer {
  label: string;
  sentBytes: number;
  /** The part of `sentBytes` that an earlier run of the program sent. */
  resumedBytes: number;
  /** Null if unknown. */
  totalBytes: number | null;
  /** The state of the file at the service; null while bytes are transferred. */
  state: string | null;
  /** The progress within that state, from 0 to 1; null if the service does not report it. */
  progress: number | null;
  /** When the transfer or the state began; milliseconds since the epoch. */
  sinceMs: number;
}

/** Makes a transfer that has not sent anything. */
export function startTransfer(label: string, totalBytes: number | null): Transfer {
  return { label, sentBytes: 0, resumedBytes: 0, totalBytes, state: null, progress: null, sinceMs: Date.now() };
}

/** Sets the state of a transfer, or the progress within it. */
export function enterState(transfer: Transfer, state: string, progress: number | null = null): void {
  transfer.progress = progress;
  if (transfer.state === state) return;
  transfer.state = state;
  transfer.sinceMs = Date.now();
}

const AMOUNT_WIDTH = 15;
const RATE_WIDTH = 9;
const MAX_BAR = 32;

/**
 * One line for the progress of a transfer, at most `width` columns. While bytes move: name, bar, per cent, bytes, rate. Later: name,
 * bar, per cent, state, time. If room is short, the bar is dropped last.
 */
export function transferLine(transfer: Transfer, width: number, nowMs: number, colours: Colours): string {
  const labelWidth = Math.max(8, Math.min(40, Math.floor(width * 0.32)));
  const label = pad(truncate(printable(transfer.label), labelWidth, 'end'), labelWidth);
  const room = width - labelWidth - 2;
  const { state } = transfer;
  const how =
    state === null ? movement(transfer, room, nowMs, colours) : waiting(transfer, state, room, nowMs, colours);
  return `${label}  ${how}`;
}

function waiting(
  { progress, sinceMs }: Transfer,
  state: string,
  room: number,
  nowMs: number,
  colours: Colours,
): string {
  const shown = truncate(printable(state), room);
  const time = humanDuration(nowMs - sinceMs);
  const tail = colours.cyan(shown) + (time ? colours.dim(`  ${time}`) : '');
  if (progress === null) return displayWidth(tail) <= room ? tail : colours.cyan(shown);
  const share = pad(percent(progress), 4, 'right');
  const text =
    [`${share}  ${tail}`, `${share}  ${colours.cyan(shown)}`].find((it) => displayWidth(it) <= room) ?? share;
  const barWidth = Math.min(MAX_BAR, room - displayWidth(text) - 2);
  return barWidth < 4 ? text : `${bar(progress, barWidth, colours)}  ${text}`;
}

function movement(
  { sentBytes, resumedBytes, totalBytes, sinceMs }: Transfer,
  room: number,
  nowMs: number,
  colours: Colours,
): string {
  const seconds = (nowMs - sinceMs) / 1000;
  const rate = pad(
    seconds >= 1 ? `${humanBytes(Math.max(0, sentBytes - resumedBytes) / seconds)}/s` : '',
    RATE_WIDTH + 1,
    'right',
  );
  if (totalBytes === null) return `${humanBytes(sentBytes)}  ${rate.trim()}`;

  const share = totalBytes === 0 ? 1 : Math.min(1, sentBytes / totalBytes);
  const amount = pad(`${humanBytes(sentBytes)}/${humanBytes(totalBytes)}`, AMOUNT_WIDTH, 'right');
  const tail = [pad(percent(share), 4, 'right'), amount, rate];
  // Drops parts from the end: the rate first. Per cent always stays.
  while (tail.length > 1 && displayWidth(tail.join('  ')) + 2 + 10 > room) tail.pop();
  const text = tail.join('  ');
  const barWidth = Math.min(MAX_BAR, room - displayWidth(text) - 2);
  return barWidth < 4 ? text : `${bar(share, barWidth, colours)}  ${text}`;
}

/** A bar of `width` columns, filled to a share from 0 to 1. */
export function bar(share: number, width: number, colours: Colours): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * width);
  return colours.cyan('━'.repeat(full)) + colours.dim('─'.repeat(width - full));
}
