import { displayWidth, pad, truncate } from './display-width.ts';
import { printable } from './printable.ts';

/** One column of a table of `T`. */
export interface Column<T> {
  title: string;
  /** For people. */
  text(row: T): string;
  /** For programs: a number without its unit, an unformatted timestamp. Defaults to `text`. */
  plain?(row: T): string;
  align?: 'left' | 'right';
  /** The smallest width that the column may be shortened to. Absent for columns that must stay whole, such as ids. */
  shrinkTo?: number;
  /** The part of a shortened text that stays; by default the start. */
  keep?: 'start' | 'end';
  /** Columns with a value are dropped if shortening is not enough, the highest value first. */
  expendable?: number;
  colour?(text: string, row: T): string;
}

const GAP = 2;

/**
 * The lines of a table that fits a terminal: it aligns columns, shortens wide ones, and drops expendable ones if it must. All values
 * are made printable.
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
  // No spaces after the last column: on a narrow terminal they would wrap.
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
  // Narrow the widest column first, step by step, so that no column loses everything while another has room.
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

/** One line of tab-separated values for each row, without a header, never shortened: for `cut`, `awk` and `while read`. */
export function tabSeparated<T>(columns: readonly Column<T>[], rows: readonly T[]): string[] {
  return rows.map((row) => columns.map((column) => printable((column.plain ?? column.text)(row))).join('\t'));
}
