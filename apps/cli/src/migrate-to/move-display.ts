import type { Migration } from '@mds/client';
import type { Colours } from '../output/colours.ts';
import { displayWidth } from '../output/display-width.ts';
import { bar } from '../output/progress.ts';
import { counted, humanBytes, humanDuration, percent } from '../output/quantities.ts';

/** What is said of each phase. */
export const PHASES: Record<Migration['phase'], string> = {
  objects: 'Copying objects; writes go on',
  rows: 'Copying rows; writes go on',
  verify: 'Comparing both sides; writes go on',
  freeze: 'Waiting for the last writes; new ones are refused',
  changes: 'Copying the latest changes; writes are refused',
  done: 'Done',
};

/** Rates are those of the latest looks: what is there from an earlier try goes by much faster than what follows. */
const RATE_OVER_MS = 15_000;
const MAX_BAR = 24;

/** How far a move is, as lines for a terminal. */
export interface MoveDisplay {
  /** Takes in how far it is now. */
  look(migration: Migration): void;
  /** At most `width` columns each. */
  lines(width: number, colours: Colours): string[];
}

interface Look {
  atMs: number;
  objects: number;
  bytes: number;
  rows: number;
}

/** Makes a {@link MoveDisplay}. @param now monotonic milliseconds */
export function createMoveDisplay(now: () => number = () => performance.now()): MoveDisplay {
  let latest: Migration | undefined;
  let looks: Look[] = [];

  /** A second, over the latest looks; null where that is not known yet. */
  const rate = (of: 'objects' | 'bytes' | 'rows'): number | null => {
    const [first, last] = [looks[0], looks.at(-1)];
    if (first === undefined || last === undefined || last.atMs - first.atMs < 1_000) return null;
    return (Math.max(0, last[of] - first[of]) * 1000) / (last.atMs - first.atMs);
  };

  return {
    look(migration) {
      // A rate of objects says nothing of rows.
      if (latest !== undefined && latest.phase !== migration.phase) looks = [];
      latest = migration;
      const atMs = now();
      const { objects, rows } = migration;
      looks.push({ atMs, objects: objects.verified, bytes: objects.verified_bytes, rows: rows.copied });
      looks = looks.filter((look) => atMs - look.atMs <= RATE_OVER_MS);
    },

    lines(width, colours) {
      if (latest === undefined) return [];
      const { phase, objects, rows } = latest;
      const isRows = phase !== 'objects';
      const [copied, total] = isRows ? [rows.copied, rows.total] : [objects.verified, objects.total];
      const share = total === null ? null : total === 0 ? 1 : Math.min(1, copied / total);
      const perSecond = rate(isRows ? 'rows' : 'objects');
      const parts = [
        ...(share === null ? [] : [percent(share)]),
        `${copied} of ${total === null ? 'so far unknown' : counted(Math.max(copied, total), isRows ? 'row' : 'object')}`,
        ...(isRows ? [] : [`${humanBytes(objects.verified_bytes)} of ${humanBytes(objects.total_bytes ?? 0)}`]),
        ...(perSecond === null || perSecond === 0
          ? []
          : [`${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)}/s`]),
        ...(left() ?? []),
      ];
      // What is least needed goes first.
      while (parts.length > 1 && displayWidth(parts.join('  ')) > width) parts.pop();
      const text = parts.join('  ');
      const room = Math.min(MAX_BAR, width - displayWidth(text) - 2);
      const drawn = share === null || room < 4 ? '' : `${bar(share, room, colours)}  `;
      return [colours.dim(PHASES[phase].slice(0, width)), `${drawn}${text}`];
    },
  };

  /** Many small objects are limited by their number, few large ones by their bytes: whichever takes longer. */
  function left(): string[] | null {
    if (latest === undefined || !['objects', 'rows'].includes(latest.phase)) return null;
    const { phase, objects, rows } = latest;
    const rest = (done: number, total: number | null, perSecond: number | null) =>
      total === null || perSecond === null || perSecond === 0 ? null : (Math.max(0, total - done) * 1000) / perSecond;
    const estimates =
      phase === 'rows'
        ? [rest(rows.copied, rows.total, rate('rows'))]
        : [
            rest(objects.verified, objects.total, rate('objects')),
            rest(objects.verified_bytes, objects.total_bytes, rate('bytes')),
          ];
    const longest = Math.max(...estimates.map((ms) => ms ?? 0));
    const shown = humanDuration(longest);
    return shown === '' ? null : [`about ${shown} left`];
  }
}
