import type { Room } from '../ingest/ingest-display.ts';
import type { Tally } from '../ingest/tally.ts';
import { truncate } from '../output/display-width.ts';
import { printable } from '../output/printable.ts';
import { type Transfer, transferLine } from '../output/progress.ts';

/** The progress of a watch on a terminal. */
export interface WatchDisplay {
  start(transfer: Transfer): void;
  end(transfer: Transfer): void;
  lines(room: Room): string[];
}

/** The state of a watch besides the running transfers. */
export interface WatchState {
  /** The folder, as the user named it. */
  folder: string;
  /** Why nothing is sent; null if files can be sent. */
  trouble: string | null;
  settling: number;
  waiting: number;
}

/** Makes the display: a line for each running transfer, and one for the whole watch. */
export function createWatchDisplay(tally: Tally, state: () => WatchState): WatchDisplay {
  const active = new Set<Transfer>();
  return {
    start(transfer) {
      active.add(transfer);
    },
    end(transfer) {
      active.delete(transfer);
    },
    lines({ width, height, colours }) {
      const now = Date.now();
      const shown = [...active].slice(0, Math.max(0, height - 1));
      const { folder, trouble, settling, waiting } = state();
      const counts = [
        [settling, 'settling'],
        [waiting, 'waiting'],
        [tally.created, 'created'],
        [tally.existing, 'existing'],
        [tally.failed, 'failed'],
      ] as const;
      const parts = counts.flatMap(([count, what]) => (count > 0 ? `${count} ${what}` : []));
      const text = trouble ?? (parts.length > 0 ? parts.join(', ') : 'nothing yet');
      const line = truncate(`watching ${printable(folder)}: ${text}`, width);
      return [
        ...shown.map((transfer) => transferLine(transfer, width, now, colours)),
        trouble === null ? colours.dim(line) : colours.yellow(line),
      ];
    },
  };
}
