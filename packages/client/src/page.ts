import { MdsError } from './errors.ts';

/** One page of a list, as the service returns it. */
export interface PageBody<T> {
  object: 'list';
  data: T[];
  next_cursor: string | null;
}

/** Fetches the page of a cursor; undefined: the first page. */
export type FetchPage<T> = (cursor: string | undefined) => Promise<PageBody<T>>;

/**
 * One page of a list. It has exactly the service's fields, so it serialises to the service's JSON. `for await` iterates over its items
 * and those of all later pages.
 */
export class Page<T> implements AsyncIterable<T> {
  readonly object = 'list';
  readonly data: T[];
  /** Cursor of the next page, null on the last. */
  readonly next_cursor: string | null;
  readonly #fetchPage: FetchPage<T>;

  constructor(body: PageBody<T>, fetchPage: FetchPage<T>) {
    this.data = body.data;
    this.next_cursor = body.next_cursor ?? null;
    this.#fetchPage = fetchPage;
    // Fields of a newer service.
    for (const [name, value] of Object.entries(body)) if (!(name in this)) Object.assign(this, { [name]: value });
  }

  /** Fetches the page after this one; null on the last. */
  async nextPage(): Promise<Page<T> | null> {
    if (this.next_cursor === null) return null;
    const body = await this.#fetchPage(this.next_cursor);
    if (body.next_cursor === this.next_cursor)
      throw new MdsError('The list goes in a circle: a page is its own next page');
    return new Page(body, this.#fetchPage);
  }

  /** This page and all later ones; each is requested when it is needed. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    for (let page: Page<T> | null = this; page !== null; page = await page.nextPage()) yield page;
  }

  /** The items of this page and of all later ones. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page.data;
  }
}

/** A requested page: await it for the page, or iterate over it with `for await` for the items of all pages. */
export interface PagePromise<T> extends Promise<Page<T>>, AsyncIterable<T> {
  /** All pages; each is requested when it is needed. */
  pages(): AsyncGenerator<Page<T>, void, undefined>;
}

/** Requests the page at `cursor` at once; undefined: the first page. */
export function pagePromise<T>(fetchPage: FetchPage<T>, cursor: string | undefined): PagePromise<T> {
  const first = fetchPage(cursor).then((body) => new Page(body, fetchPage));
  const pages = async function* () {
    yield* (await first).pages();
  };
  const items = async function* () {
    yield* await first;
  };
  return Object.assign(first, { pages, [Symbol.asyncIterator]: items });
}
