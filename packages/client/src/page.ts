import { MdsError } from './errors.ts';

/** What the service answers for one page of a list. */
export interface PageBody<T> {
  object: 'list';
  data: T[];
  next_cursor: string | null;
}

/** Fetches the page that a cursor stands for; the first one for undefined. */
export type FetchPage<T> = (cursor: string | undefined) => Promise<PageBody<T>>;

/**
 * One page of a list. Its own fields are exactly the service's, so that it serialises to the service's JSON. Iterating over
 * it with `for await` gives its items and those of all pages after it.
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
    // What a newer service has to say about the page.
    for (const [name, value] of Object.entries(body)) if (!(name in this)) Object.assign(this, { [name]: value });
  }

  /** Fetches the page after this one; null on the last. */
  async nextPage(): Promise<Page<T> | null> {
    if (this.next_cursor === null) return null;
    const body = await this.#fetchPage(this.next_cursor);
    if (body.next_cursor === this.next_cursor) throw new MdsError('The list goes in a circle: a page points to itself');
    return new Page(body, this.#fetchPage);
  }

  /** This page and those after it, one request each, made when it is asked for. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    for (let page: Page<T> | null = this; page !== null; page = await page.nextPage()) yield page;
  }

  /** The items of this page and of those after it. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page.data;
  }
}

/** A page that is on its way: await it for the page, iterate over it with `for await` for the items of all pages. */
export interface PagePromise<T> extends Promise<Page<T>>, AsyncIterable<T> {
  /** All pages, one request each, made when it is asked for. */
  pages(): AsyncGenerator<Page<T>, void, undefined>;
}

/** Asks for the page at `cursor` (the first one for undefined) at once. */
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
