import type { MediaDetail } from '@mds/client';
import type { Context } from '../context.ts';
import { watchForMove } from '../moved-deployment.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { printable } from '../output/printable.ts';
import { enterState, startTransfer, type Transfer, transferLine } from '../output/progress.ts';
import { forEachMedia, type MediaResult } from './for-each-media.ts';
import { failedNames, failedSentence } from './media-state.ts';

/**
 * Queues media again that failed or have failed renditions.
 * @param wait wait for all of them at once; the results are printed in the order of the arguments
 * @throws CliError if something failed again
 */
export async function retryMedia(context: Context, ids: readonly string[], wait: boolean): Promise<void> {
  const client = await context.operator();
  const { signal } = context.io;
  const retry = (id: string) => client.control.media.retry(id, { signal });
  if (!wait) return forEachMedia(context, ids, async (id) => begun(await retry(id)));

  const moveWatch = watchForMove(client, signal);
  const active = new Set<Transfer>();
  const block = createLiveBlock(context.progress, (width, height) =>
    [...active].slice(0, height).map((it) => transferLine(it, width, Date.now(), context.errorColours)),
  );
  const processed = async (id: string) => {
    const transfer = startTransfer(id, null);
    const media = await retry(id);
    enterState(transfer, media.status);
    active.add(transfer);
    try {
      return await client.control.media.waitUntilReady(id, {
        signal: moveWatch.signal,
        renditions: true,
        onProgress: ({ status, progress }) => enterState(transfer, status, progress),
      });
    } finally {
      active.delete(transfer);
    }
  };
  const outcomes = new Map(ids.map((id) => [id, processed(id)]));
  // Each outcome is handled in its turn below. Until then, a rejection must not end the program.
  for (const outcome of outcomes.values()) outcome.catch(() => undefined);
  try {
    await forEachMedia(
      context,
      ids,
      async (id) => ended(await (outcomes.get(id) ?? processed(id))),
      (write) => block.above(write),
    );
  } finally {
    moveWatch.stop();
    block.stop();
  }
}

function begun(media: MediaDetail): MediaResult {
  const pending = media.renditions.filter(({ state }) => state === 'pending');
  const names = pending.map(({ name, extension }) => `${name}.${extension}`);
  // For a failed media object, everything is made again.
  const what = media.status === 'ready' && names.length > 0 ? `being made again: ${names.join(', ')}` : '';
  return { line: lineOf(media, what), json: media };
}

function ended(media: MediaDetail): MediaResult {
  const failure = failedSentence(failedNames(media));
  return { line: lineOf(media, failure), json: media, failure };
}

function lineOf({ id, status }: MediaDetail, what: string): string {
  return [id, status, ...(what ? [what] : [])].map(printable).join('\t');
}
