import type { Page } from '@mds/client';
import type { Context } from '../context.ts';
import { type Column, tabSeparated } from './table.ts';

/** How much of a list to print. */
export interface PageArguments {
  limit: number;
  all?: boolean;
  cursor?: string;
}

/** The request for one page. */
export interface PageRequest {
  limit: number;
  cursor: string | undefined;
}

const LARGEST_PAGE = 100;

/**
 * Prints a paged list, and reads as many pages as the limit needs.
 * @param empty printed on a terminal if the list is empty
 * @param first the order of the list
 */
export async function listPages<T>(
  context: Context,
  options: PageArguments,
  fetchPage: (page: PageRequest) => PromiseLike<Page<T>>,
  columns: readonly Column<T>[],
  empty: string,
  first: 'newest' | 'oldest' = 'newest',
): Promise<void> {
  const streams = !context.interactive && !context.json;
  const rows: T[] = [];
  let missing = options.all ? Number.POSITIVE_INFINITY : options.limit;
  let page: Page<T>;
  let cursor: string | null | undefined = options.cursor;
  do {
    // Never ask for more than the limit: the cursor of the last page must continue exactly where this list ends.
    page = await fetchPage({ limit: Math.min(missing, LARGEST_PAGE), cursor });
    missing -= page.data.length;
    cursor = page.next_cursor;
    // Prints each page as it arrives, so that memory does not grow with the list.
    if (streams) for (const line of tabSeparated(columns, page.data)) context.print(line);
    else rows.push(...page.data);
  } while (cursor !== null && missing > 0);
  if (streams) return;
  context.list({ columns, rows, json: { ...page, data: rows }, empty });
  if (context.interactive && cursor !== null) {
    context.note(context.errorColours.dim(`The ${first} ${rows.length}; for more: --limit, --all.`));
  }
}
