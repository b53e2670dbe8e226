import type { MediaDetail } from '@mds/client';
import type { Context } from '../context.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { enterState, startTransfer, type Transfer, transferLine } from '../output/progress.ts';
import { forEachMedium } from './for-each-medium.ts';

/**
 * Sends media back into the queue that failed, or of which renditions did.
 * @param wait until they are done: all of them at once, told in the order they were named
 */
export async function retryMedia(context: Context, ids: readonly string[], wait: boolean): Promise<void> {
  const client = await context.operator();
  const { signal } = context.io;
  const retry = (id: string) => client.control.media.retry(id, { signal });
  if (!wait) return forEachMedium(context, ids, async (id) => result(await retry(id)));

  const active = new Set<Transfer>();
  const block = createLiveBlock(context.quiet ? null : context.io.stderr, (width, height) =>
    [...active].slice(0, height).map((it) => transferLine(it, width, Date.now(), context.errorColours)),
  );
  const processed = async (id: string) => {
    const transfer = startTransfer(id, null);
    const media = await retry(id);
    enterState(transfer, media.status);
    active.add(transfer);
    try {
      return await client.control.media.waitUntilReady(id, {
        signal,
        renditions: true,
        onProgress: ({ status, progress }) => enterState(transfer, status, progress),
      });
    } finally {
      active.delete(transfer);
    }
  };
  const outcomes = new Map(ids.map((id) => [id, processed(id)]));
  // Each is looked at in its turn; until then none that fails may end the program.
  for (const outcome of outcomes.values()) outcome.catch(() => undefined);
  try {
    await forEachMedium(
      context,
      ids,
      async (id) => result(await (outcomes.get(id) ?? processed(id))),
      (write) => block.above(write),
    );
  } finally {
    block.stop();
  }
}

function result(media: MediaDetail) {
  return { line: `${media.id}\t${media.status}`, json: media };
}
