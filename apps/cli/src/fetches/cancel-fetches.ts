import type { Context } from '../context.ts';
import { forEachMedium } from '../media/for-each-medium.ts';

/** Cancels fetches, one after the other. */
export async function cancelFetches(context: Context, ids: readonly string[]): Promise<void> {
  const client = await context.operator();
  await forEachMedium(context, ids, async (id) => {
    const fetch = await client.control.fetches.cancel(id, { signal: context.io.signal });
    return { line: `${fetch.id}\t${fetch.status}`, json: fetch };
  });
}
