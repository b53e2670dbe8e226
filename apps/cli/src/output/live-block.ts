import type { OutputStream } from '../io.ts';
import { displayWidth } from './display-width.ts';
import { printableLine } from './printable.ts';

/** Lines at the end of a terminal that are redrawn several times a second. */
export interface LiveBlock {
  /** Removes the lines, runs `write`, and draws them again below its output. */
  above(write: () => void): void;
  /** Removes the lines for good. */
  stop(): void;
}

const REDRAW_MS = 100;

/**
 * Shows a block of lines at the end of a terminal. Shows nothing if the stream is null or not a terminal.
 * @param lines returns the current lines: at most `height`, each at most `width` columns
 */
export function createLiveBlock(
  stream: OutputStream | null,
  lines: (width: number, height: number) => string[],
): LiveBlock {
  if (stream?.isTTY !== true) {
    return { above: (write) => write(), stop: () => undefined };
  }
  let drawn: string[] = [];
  const erase = () => {
    const columns = stream.columns || 80;
    // A window that became narrower has wrapped the drawn lines into more rows.
    const rows = drawn.reduce((sum, line) => sum + Math.max(1, Math.ceil(displayWidth(line) / columns)), 0);
    drawn = [];
    // Cursor up to the first of our lines, then erase to the end of the screen (ECMA-48: CPL, ED).
    return rows > 0 ? `\x1b[${rows}F\x1b[J` : '';
  };
  const draw = () => {
    // One column stays free: some terminals wrap as soon as the last column is written.
    const next = lines((stream.columns || 80) - 1, Math.max(1, (stream.rows || 24) - 2)).map(printableLine);
    const text = erase() + next.map((line) => `${line}\n`).join('');
    drawn = next;
    // One write: separate ones would flicker.
    if (text) stream.write(text);
  };
  const timer = setInterval(draw, REDRAW_MS);
  return {
    above(write) {
      stream.write(erase());
      write();
      draw();
    },
    stop() {
      clearInterval(timer);
      stream.write(erase());
    },
  };
}
