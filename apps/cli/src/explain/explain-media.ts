import type { MediaExplanation } from '@mds/client';
import type { Context } from '../context.ts';
import { type Colours, colourState } from '../output/colours.ts';
import { printable } from '../output/printable.ts';
import { wrap } from '../output/wrap.ts';
import { attemptLines } from './attempt-lines.ts';
import { plainLines } from './plain-lines.ts';
import { planLines } from './plan-lines.ts';
import { probeFacts } from './probe-facts.ts';

/**
 * Explains the state of a media object.
 * @param all show every program of every attempt with its full command line; otherwise the latest attempt and what failed
 */
export async function explainMedia(context: Context, id: string, all: boolean): Promise<void> {
  const client = await context.operator();
  const explanation = await client.control.media.explain(id, { signal: context.io.signal });
  if (context.json) return context.printJson(explanation);
  const lines = context.interactive ? humanLines(context, explanation, all) : plainLines(explanation, all);
  for (const line of lines) context.print(line);
}

function humanLines(context: Context, explanation: MediaExplanation, all: boolean): string[] {
  const { colours, width } = context;
  const { attempts } = explanation;
  const facts = [
    ...summary(context, explanation),
    ...probeFacts(explanation.probe).map(([name, text]) => ({ name, text })),
  ];
  const lines = facts.flatMap((fact) => factLines(fact, width, colours));
  if (explanation.plan.length > 0) lines.push('', ...planLines(explanation.kind, explanation.plan, width, colours));
  for (const attempt of attempts) {
    lines.push(
      '',
      ...attemptLines(attempt, { width, colours, full: all || attempt === attempts.at(-1), commands: all }),
    );
  }
  if (!all && attempts.some(({ runs }) => runs.length > 0)) {
    lines.push('', colours.dim(printable(`Every command: mds media explain ${explanation.id} --all`)));
  }
  return lines;
}

/** A name with its text. Both come from outside and may be unsafe to print. */
interface Fact {
  name: string;
  text: string;
  colour?: (text: string) => string;
}

const NAME_WIDTH = 9;

/** Wraps a long text and indents its further lines. */
function factLines({ name, text, colour = (it) => it }: Fact, width: number, colours: Colours): string[] {
  const shown = printable(name).padEnd(NAME_WIDTH);
  const [first = '', ...more] = wrap(printable(text), Math.max(20, width - shown.length - 2));
  return [
    `${colours.bold(shown)}  ${colour(first)}`,
    ...more.map((line) => ' '.repeat(shown.length + 2) + colour(line)),
  ];
}

function summary({ colours }: Context, explanation: MediaExplanation): Fact[] {
  const { id, status, waiting_for: waitingFor, error, warnings } = explanation;
  const facts: Fact[] = [
    { name: 'id', text: id },
    { name: 'status', text: status, colour: (text) => colourState(colours, status, text) },
  ];
  if (waitingFor !== null) facts.push({ name: 'waiting', text: waitingFor });
  if (error) {
    const advice = error.retryable
      ? `another attempt may succeed: mds media retry ${id}`
      : 'another attempt would fail as well; the file has to change';
    facts.push({ name: 'error', text: `${error.message} (${error.code})`, colour: colours.red });
    facts.push({ name: '', text: advice, colour: colours.dim });
  }
  for (const warning of warnings) facts.push({ name: 'warning', text: warning, colour: colours.yellow });
  return facts;
}
