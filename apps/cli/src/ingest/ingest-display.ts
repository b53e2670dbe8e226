import type { Colours } from '../output/colours.ts';
import { type Transfer, transferLine } from '../output/progress.ts';
import { humanBytes } from '../output/quantities.ts';
import type { FileCount } from './count-files.ts';
import type { Tally } from './tally.ts';

/** The area of the terminal for the display. */
export interface Room {
  width: number;
  height: number;
  colours: Colours;
}

/** The progress of an ingest on a terminal. */
export interface IngestDisplay {
  start(transfer: Transfer): void;
  end(transfer: Transfer): void;
  lines(room: Room): string[];
}

/** Makes the display: a line for each running transfer, and one for all files. */
export function createIngestDisplay(tally: Tally, count: FileCount): IngestDisplay {
  const active = new Set<Transfer>();
  let endedBytes = 0;
  return {
    start(transfer) {
      active.add(transfer);
    },
    end(transfer) {
      active.delete(transfer);
      endedBytes += transfer.sentBytes;
    },
    lines({ width, height, colours }) {
      const now = Date.now();
      const shown = [...active].slice(0, Math.max(1, height - 1));
      const lines = shown.map((transfer) => transferLine(transfer, width, now, colours));
      if (count.files > 1 && height > 1) {
        const sent = [...active].reduce((sum, { sentBytes }) => sum + sentBytes, endedBytes);
        // More files may be found.
        const more = count.complete ? '' : '+';
        const files = `${tally.files} of ${count.files}${more} files`;
        lines.push(colours.dim(`${files}, ${humanBytes(sent)} of ${humanBytes(count.bytes)}${more}`));
      }
      return lines;
    },
  };
}
