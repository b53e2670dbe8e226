import type { PlannedPreset } from '@mds/client';
import type { Colours } from '../output/colours.ts';
import { displayWidth, pad } from '../output/display-width.ts';
import { printable } from '../output/printable.ts';
import { humanBitrate } from '../output/quantities.ts';
import { type Column, tableLines } from '../output/table.ts';
import { wrap } from '../output/wrap.ts';

/** A line of the plan: a preset, or a rung of its ladder. */
interface Row {
  name: string;
  decision: string;
  size: string;
  why: string;
}

const LEAST_FOR_REASON = 24;

/**
 * The plan as a table: what is made and what is left out, and why, reasons in full. Presets for other kinds of media are
 * named in one sentence at the end.
 */
export function planLines(kind: string, plan: readonly PlannedPreset[], width: number, colours: Colours): string[] {
  const made = plan.filter(({ decision }) => decision !== 'not_applicable');
  const rows = made.flatMap((preset, index) => rowsOf(preset, made[index - 1]));
  const columns: Column<Row>[] = [
    { title: 'PLAN', text: ({ name }) => name },
    {
      title: 'DECISION',
      text: ({ decision }) => decision,
      colour: (text, { decision }) => (decision === 'make' ? colours.green(text) : colours.dim(text)),
    },
    { title: 'PIXELS', text: ({ size }) => size, align: 'right' },
  ];
  const [head = '', ...body] = tableLines(columns, rows, width, colours.bold);
  const indent = Math.max(displayWidth(head), ...body.map(displayWidth)) + 2;
  const beside = width - indent >= LEAST_FOR_REASON;
  const lines = rows.length === 0 ? [] : [beside ? `${pad(head, indent)}${colours.bold('WHY')}` : head];
  rows.forEach(({ why }, index) => {
    const line = body[index] ?? '';
    const room = beside ? indent : 4;
    const reason = why === '' ? [] : wrap(printable(why), Math.max(LEAST_FOR_REASON, width - room));
    if (beside) lines.push(pad(line, indent) + (reason.shift() ?? ''));
    else lines.push(line);
    lines.push(...reason.map((more) => ' '.repeat(room) + more));
  });
  const others = plan.filter(({ decision }) => decision === 'not_applicable').map(nameOf);
  if (others.length > 0) {
    lines.push(...wrap(printable(`Not for ${kind}: ${others.join(', ')}.`), width).map((line) => colours.dim(line)));
  }
  return lines.map((line) => line.trimEnd());
}

/** @param before the preset that is told before this one: what was said of its other format is not said twice */
function rowsOf(preset: PlannedPreset, before: PlannedPreset | undefined): Row[] {
  const { decision, reason, rungs } = preset;
  const isTold = before?.name === preset.name && before.reason === reason && reason.length > LONG_REASON;
  const first = {
    name: nameOf(preset),
    decision,
    size: size(preset),
    why: isTold ? `As for ${nameOf(before)}.` : reason,
  };
  const [only, ...others] = rungs;
  // A ladder of one rung is no ladder.
  if (only && others.length === 0 && size(only) === first.size) {
    return [{ ...first, why: [first.why, `${boundOf(only)}.`].filter((part) => part !== '').join(' ') }];
  }
  return [
    first,
    ...rungs.map((rung) => ({ name: `  ${rung.name}`, decision: '', size: size(rung), why: boundOf(rung) })),
  ];
}

/** A reason of more characters is not worth telling twice. */
const LONG_REASON = 40;

function boundOf({ bitrate, may_copy: mayCopy }: PlannedPreset['rungs'][number]): string {
  return `At most ${humanBitrate(bitrate)}${mayCopy ? '; copied where its keyframes allow' : ''}`;
}

function nameOf({ name, extension }: PlannedPreset): string {
  return `${name}.${extension}`;
}

function size({ width, height }: { width: number; height: number }): string {
  return width > 0 && height > 0 ? `${width}x${height}` : '-';
}
