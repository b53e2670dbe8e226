import type { MediaDetail } from '@mds/client';
import { confirm, requireTerminal } from '../confirm.ts';
import type { Context } from '../context.ts';
import { printable } from '../output/printable.ts';
import { counted, humanBytes } from '../output/quantities.ts';
import { forEachMedia } from './for-each-media.ts';

/**
 * Deletes media, after asking on the terminal.
 * @param sure delete without asking
 */
export async function deleteMedia(context: Context, ids: readonly string[], sure: boolean): Promise<void> {
  const { io } = context;
  const client = await context.operator();
  if (!sure) {
    requireTerminal(context, 'delete');
    // Get all media first: the user sees what will be deleted, and a missing one fails before anything is deleted.
    const media: MediaDetail[] = [];
    for (const id of ids) media.push(await client.control.media.get(id, { signal: io.signal }));
    for (const it of media) {
      io.stderr.write(`${printable(`${it.id}  ${it.filename ?? ''}  ${it.content_type}, ${humanBytes(it.bytes)}`)}\n`);
    }
    const what = counted(media.length, 'media object');
    await confirm(context, `Delete ${what} with all renditions?`, 'Nothing was deleted.');
  }
  await forEachMedia(context, ids, async (id) => {
    await client.control.media.delete(id, { signal: io.signal });
    return { line: `${id}\tdeleted`, json: { id, deleted: true } };
  });
}
