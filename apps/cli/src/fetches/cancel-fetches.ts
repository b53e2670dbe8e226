import type { Context } from '../context.ts';
import { forEachMedia } from '../media/for-each-media.ts';

/** Cancels fetches one by one. */
export async function cancelFetches(context: Context, ids: readonly string[]): Promise<void> {
  const client = await context.operator();
  await forEachMedia(context, ids, async (id) => {
    const fetch = await client.control.fetches.cancel(id, { signal: context.io.signal });
    return { line: `${fetch.id}\t${fetch.status}`, json: fetch };
  });
}
