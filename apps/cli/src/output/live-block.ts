import type { OutputStream } from '../io.ts';
import { displayWidth } from './display-width.ts';
import { printableLine } from './printable.ts';

/** Some lines at the end of a terminal that are drawn anew, several times a second. */
export interface LiveBlock {
  /** Takes the lines away, lets something else be written, and puts them back below it. */
  above(write: () => void): void;
  /** Takes the lines away for good. */
  stop(): void;
}

const REDRAW_MS = 100;

/**
 * Shows a block of lines at the end of a terminal; nothing where the stream is none, or null.
 * @param lines the lines as they are now; each at most `width` columns, at most `height` of them
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
    // A window that became narrower since has broken what was drawn into more lines.
    const rows = drawn.reduce((sum, line) => sum + Math.max(1, Math.ceil(displayWidth(line) / columns)), 0);
    drawn = [];
    // Cursor up to the first of our lines, then erase to the end of the screen (ECMA-48: CPL, ED).
    return rows > 0 ? `\x1b[${rows}F\x1b[J` : '';
  };
  const draw = () => {
    // One column stays free: a terminal that is written full may go on to the next line by itself.
    const next = lines((stream.columns || 80) - 1, Math.max(1, (stream.rows || 24) - 2)).map(printableLine);
    const text = erase() + next.map((line) => `${line}\n`).join('');
    drawn = next;
    // One write: erasing and drawing apart would flicker.
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
