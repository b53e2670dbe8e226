import type { Page } from '@mds/client';
import type { Context } from '../context.ts';
import { type Column, tabSeparated } from './table.ts';

/** How much of a list somebody wants. */
export interface PageArguments {
  limit: number;
  all?: boolean;
  cursor?: string;
}

/** One page, as it is asked for. */
export interface PageRequest {
  limit: number;
  cursor: string | undefined;
}

const LARGEST_PAGE = 100;

/**
 * Prints a list that comes in pages; as many of them as the limit takes.
 * @param empty what people are told where there is nothing
 * @param first which of them come first
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
    // No more than is missing, so that the last page's cursor goes on exactly where this list ends.
    page = await fetchPage({ limit: Math.min(missing, LARGEST_PAGE), cursor });
    missing -= page.data.length;
    cursor = page.next_cursor;
    // Lines go out as pages come in: a list of any length takes no more memory than a page.
    if (streams) for (const line of tabSeparated(columns, page.data)) context.print(line);
    else rows.push(...page.data);
  } while (cursor !== null && missing > 0);
  if (streams) return;
  context.list({ columns, rows, json: { ...page, data: rows }, empty });
  if (context.interactive && cursor !== null) {
    context.note(context.errorColours.dim(`The ${first} ${rows.length}; there are more: --limit, --all.`));
  }
}
