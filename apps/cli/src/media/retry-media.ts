import type { MediaDetail } from '@mds/client';
import type { Context } from '../context.ts';
import { forEachMedium } from './for-each-medium.ts';

/** Sends failed media back into the queue, one after the other. */
export async function retryMedia(context: Context, ids: readonly string[]): Promise<void> {
  const client = await context.operator();
  await forEachMedium(context, ids, async (id) => {
    const media = await client.control.media.retry(id, { signal: context.io.signal });
    return { line: `${media.id}\t${media.status}`, json: media satisfies MediaDetail };
  });
}
