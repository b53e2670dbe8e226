import { displayWidth, pad, truncate } from './display-width.ts';
import { printable } from './printable.ts';

/** One column of a table of `T`. */
export interface Column<T> {
  title: string;
  /** For people. */
  text(row: T): string;
  /** For programs: a number without its unit, an instant as it is. The same as `text` where absent. */
  plain?(row: T): string;
  align?: 'left' | 'right';
  /** The least columns that it may be shortened to where room is short; never shortened where absent, as ids are. */
  shrinkTo?: number;
  /** Which part of a shortened text stays; the start unless said. */
  keep?: 'start' | 'end';
  /** Left out where room is short all the same, the greatest first. Never where absent. */
  expendable?: number;
  colour?(text: string, row: T): string;
}

const GAP = 2;

/**
 * The lines of a table that fits into a terminal: columns aligned, wide ones shortened, expendable ones left out where there
 * is no other way. Values come out printable, whatever is in them.
 * @param maxWidth columns of the terminal
 * @param heading colours the titles
 */
export function tableLines<T>(
  columns: readonly Column<T>[],
  rows: readonly T[],
  maxWidth: number,
  heading: (text: string) => string = (text) => text,
): string[] {
  const all = columns.map((column) => {
    const cells = rows.map((row) => printable(column.text(row)));
    return { column, cells, width: Math.max(displayWidth(column.title), ...cells.map(displayWidth)) };
  });
  const shown = fit(all, maxWidth);
  const line = (cells: string[]) => cells.join(' '.repeat(GAP));
  // The end of a line stays bare: spaces there would only break lines on a terminal that is as narrow.
  const place = (text: string, { column, width }: Sized<T>) =>
    column === shown.at(-1)?.column && column.align !== 'right' ? text : pad(text, width, column.align);

  const head = line(shown.map((sized) => place(heading(truncate(sized.column.title, sized.width)), sized)));
  const body = rows.map((row, index) =>
    line(
      shown.map((sized) => {
        const { column, cells, width } = sized;
        const cell = truncate(cells[index] ?? '', width, column.keep);
        return place(column.colour ? column.colour(cell, row) : cell, sized);
      }),
    ),
  );
  return [head, ...body];
}

interface Sized<T> {
  column: Column<T>;
  cells: string[];
  width: number;
}

function fit<T>(columns: Sized<T>[], maxWidth: number): Sized<T>[] {
  const total = (sized: Sized<T>[]) => sized.reduce((sum, { width }) => sum + width + GAP, -GAP);
  const least = ({ column, width }: Sized<T>) => Math.min(width, column.shrinkTo ?? width);
  let shown = columns;
  for (;;) {
    const excess = total(shown.map((sized) => ({ ...sized, width: least(sized) }))) - maxWidth;
    const victim = shown.reduce<Sized<T> | null>((worst, sized) => {
      if (sized.column.expendable === undefined) return worst;
      return (worst?.column.expendable ?? -1) < sized.column.expendable ? sized : worst;
    }, null);
    if (excess <= 0 || victim === null) break;
    shown = shown.filter((sized) => sized !== victim);
  }
  let excess = total(shown) - maxWidth;
  const widths = new Map(shown.map((sized) => [sized, sized.width]));
  // The widest gives first, a column at a time, so that no one loses all while another keeps room to spare.
  while (excess > 0) {
    let widest: Sized<T> | null = null;
    for (const sized of shown) {
      const width = widths.get(sized) ?? 0;
      if (width > least(sized) && width > (widest ? (widths.get(widest) ?? 0) : 0)) widest = sized;
    }
    if (widest === null) break;
    widths.set(widest, (widths.get(widest) ?? 0) - 1);
    excess--;
  }
  return shown.map((sized) => ({ ...sized, width: widths.get(sized) ?? sized.width }));
}

/** One line of tab-separated values for each row, no header, nothing shortened: for `cut`, `awk` and `while read`. */
export function tabSeparated<T>(columns: readonly Column<T>[], rows: readonly T[]): string[] {
  return rows.map((row) => columns.map((column) => printable((column.plain ?? column.text)(row))).join('\t'));
}
