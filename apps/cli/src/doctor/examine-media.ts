import type { MediaVerification, Repair } from '@mds/client';
import type { Context } from '../context.ts';
import { ReportedError } from '../exit-codes.ts';
import { jsonText } from '../output/json.ts';
import { createLiveBlock } from '../output/live-block.ts';
import { printable } from '../output/printable.ts';
import { humanBytes } from '../output/quantities.ts';

/** The options of `mds doctor`, parsed. */
export interface DoctorArguments {
  repair?: boolean;
}

/** The remedy for damaged or missing bytes, for people. */
const REMEDIES: Record<Exclude<Repair, 'none'>, string> = {
  possible: 'can be made again: mds doctor --repair',
  queued: 'is being made again',
  needs_preset:
    'cannot be made again, no preset makes it any more: put its preset back first, or give it up: mds doctor --repair',
  given_up: 'given up, no preset makes it any more',
  needs_original: 'upload the same file again',
};

/**
 * Has the service verify media one by one, and prints what is damaged or missing; with `--json` one answer a line.
 * @throws ReportedError if something is damaged and not being repaired
 */
export async function examineMedia(context: Context, ids: readonly string[], options: DoctorArguments): Promise<void> {
  const client = await context.operator();
  const { signal } = context.io;
  let examined = 0;
  let bytes = 0;
  let damaged = 0;
  let unrepairedCount = 0;
  const live = createLiveBlock(context.progress, () => [
    `${examined} media examined, ${humanBytes(bytes)} read, ${damaged} not sound`,
  ]);
  try {
    for await (const id of ids.length > 0 ? ids : everyId(client.media.list({ limit: 100, signal }))) {
      const result = await client.control.media.verify(id, { repair: options.repair === true, signal });
      examined += 1;
      bytes += result.checked_bytes;
      if (result.repair !== 'none') damaged += 1;
      if (result.repair !== 'none' && result.repair !== 'queued') unrepairedCount += 1;
      live.above(() => report(context, result));
    }
  } finally {
    live.stop();
  }
  context.note(
    `${examined} media examined, ${humanBytes(bytes)} read: ${damaged === 0 ? 'all sound' : `${damaged} not sound`}.`,
  );
  if (unrepairedCount > 0) throw new ReportedError(`${unrepairedCount} of ${examined} media are not sound.`);
}

async function* everyId(media: AsyncIterable<{ id: string }>): AsyncGenerator<string> {
  for await (const { id } of media) yield id;
}

function report(context: Context, result: MediaVerification): void {
  if (context.json) {
    context.io.stdout.write(`${jsonText(result, 0)}\n`);
    return;
  }
  const parts = [
    { what: 'original', health: result.original, repair: 'needs_original' as const },
    ...result.renditions.map(({ name, extension, health, repair }) => ({
      what: `${name}.${extension}`,
      health,
      repair,
    })),
  ];
  for (const { what, health, repair } of parts) {
    if (health === 'sound') continue;
    const remedy = repair === 'none' ? '' : (REMEDIES[repair] ?? repair);
    const cells = [result.id, what, health, remedy, result.filename ?? ''];
    context.print(
      cells
        .map(printable)
        .join(context.interactive ? '  ' : '\t')
        .trimEnd(),
    );
  }
}
