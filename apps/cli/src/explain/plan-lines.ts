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
  const rows = plan.filter(({ decision }) => decision !== 'not_applicable').flatMap(rowsOf);
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

function rowsOf(preset: PlannedPreset): Row[] {
  const { decision, reason, rungs } = preset;
  return [
    { name: nameOf(preset), decision, size: size(preset), why: reason },
    ...rungs.map((rung) => ({
      name: `  ${rung.name}`,
      decision: '',
      size: size(rung),
      why: `at most ${humanBitrate(rung.bitrate)}${rung.may_copy ? '; copied where its keyframes allow' : ''}`,
    })),
  ];
}

function nameOf({ name, extension }: PlannedPreset): string {
  return `${name}.${extension}`;
}

function size({ width, height }: { width: number; height: number }): string {
  return width > 0 && height > 0 ? `${width}x${height}` : '-';
}
