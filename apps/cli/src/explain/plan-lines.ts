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

const MIN_REASON_WIDTH = 24;

/**
 * The plan as a table: what is made or left out, with the full reasons. A last sentence lists the presets for other kinds of
 * media.
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
  const beside = width - indent >= MIN_REASON_WIDTH;
  const lines = rows.length === 0 ? [] : [beside ? `${pad(head, indent)}${colours.bold('WHY')}` : head];
  rows.forEach(({ why }, index) => {
    const line = body[index] ?? '';
    const room = beside ? indent : 4;
    const reason = why === '' ? [] : wrap(printable(why), Math.max(MIN_REASON_WIDTH, width - room));
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

/** @param before the preset of the line above; a reason that it shares is not repeated */
function rowsOf(preset: PlannedPreset, before: PlannedPreset | undefined): Row[] {
  const { decision, reason, rungs } = preset;
  const isRepeated = before?.name === preset.name && before.reason === reason && reason.length > LONG_REASON;
  const first = {
    name: nameOf(preset),
    decision,
    size: size(preset),
    why: isRepeated ? `Same as ${nameOf(before)}.` : reason,
  };
  const [only, ...others] = rungs;
  // A single rung gets no line of its own.
  if (only && others.length === 0 && size(only) === first.size) {
    return [{ ...first, why: [first.why, `${describeRung(only)}.`].filter((part) => part !== '').join(' ') }];
  }
  return [
    first,
    ...rungs.map((rung) => ({ name: `  ${rung.name}`, decision: '', size: size(rung), why: describeRung(rung) })),
  ];
}

/** Reasons up to this length are repeated. */
const LONG_REASON = 40;

function describeRung({ bitrate, may_copy: mayCopy }: PlannedPreset['rungs'][number]): string {
  return `At most ${humanBitrate(bitrate)}${mayCopy ? '; copied if its keyframes allow' : ''}`;
}

function nameOf({ name, extension }: PlannedPreset): string {
  return `${name}.${extension}`;
}

function size({ width, height }: { width: number; height: number }): string {
  return width > 0 && height > 0 ? `${width}x${height}` : '-';
}
