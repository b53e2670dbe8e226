import type { Migration } from '@mds/client';
import type { Colours } from '../output/colours.ts';
import { displayWidth } from '../output/display-width.ts';
import { bar } from '../output/progress.ts';
import { counted, humanBytes, humanDuration, percent } from '../output/quantities.ts';

/** The text for each phase. */
export const PHASES: Record<Migration['phase'], string> = {
  objects: 'Copying objects; writes are accepted',
  rows: 'Copying rows; writes are accepted',
  verify: 'Comparing both sides; writes are accepted',
  freeze: 'Waiting for the last writes; new ones are refused',
  changes: 'Copying the latest changes; writes are refused',
  done: 'Done',
};

/** Rates cover this time only: objects copied by an earlier attempt are passed much faster than new ones. */
const RATE_OVER_MS = 15_000;
const MAX_BAR = 24;

/** The progress of a move as lines for a terminal. */
export interface MoveDisplay {
  /** Records the current progress. */
  update(migration: Migration): void;
  /** At most `width` columns each. */
  lines(width: number, colours: Colours): string[];
}

interface Sample {
  atMs: number;
  objects: number;
  bytes: number;
  rows: number;
}

/** Makes a {@link MoveDisplay}. @param now monotonic milliseconds */
export function createMoveDisplay(now: () => number = () => performance.now()): MoveDisplay {
  let latest: Migration | undefined;
  let samples: Sample[] = [];

  /** The rate per second over the latest samples; null until there are enough. */
  const rate = (of: 'objects' | 'bytes' | 'rows'): number | null => {
    const [first, last] = [samples[0], samples.at(-1)];
    if (first === undefined || last === undefined || last.atMs - first.atMs < 1_000) return null;
    return (Math.max(0, last[of] - first[of]) * 1000) / (last.atMs - first.atMs);
  };

  return {
    update(migration) {
      // Rates of objects and rows cannot be mixed.
      if (latest !== undefined && latest.phase !== migration.phase) samples = [];
      latest = migration;
      const atMs = now();
      const { objects, rows } = migration;
      samples.push({ atMs, objects: objects.verified, bytes: objects.verified_bytes, rows: rows.copied });
      samples = samples.filter((sample) => atMs - sample.atMs <= RATE_OVER_MS);
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
        `${copied} of ${total === null ? 'unknown' : counted(Math.max(copied, total), isRows ? 'row' : 'object')}`,
        ...(isRows ? [] : [`${humanBytes(objects.verified_bytes)} of ${humanBytes(objects.total_bytes ?? 0)}`]),
        ...(perSecond === null || perSecond === 0
          ? []
          : [`${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)}/s`]),
        ...(timeLeft() ?? []),
      ];
      // Drop the least important parts first.
      while (parts.length > 1 && displayWidth(parts.join('  ')) > width) parts.pop();
      const text = parts.join('  ');
      const room = Math.min(MAX_BAR, width - displayWidth(text) - 2);
      const drawn = share === null || room < 4 ? '' : `${bar(share, room, colours)}  `;
      return [colours.dim(PHASES[phase].slice(0, width)), `${drawn}${text}`];
    },
  };

  /** The remaining time. Many small objects are limited by their number, few large ones by their bytes: the longer estimate counts. */
  function timeLeft(): string[] | null {
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
