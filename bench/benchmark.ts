/** The bound of a ratio: at most, or at least, this much. */
export type Goal = { readonly says: string } & ({ readonly atMost: number } | { readonly atLeast: number });

/** A measured ratio of our side to the other, with the smallest and the largest that any one round gave. */
export interface Ratio {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** Rows of text under headings; the first column is left-aligned, the others right. */
export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The result of a run. `problems` are wrong outputs: any of them fails the benchmark. */
export interface Outcome<Names extends string = string> {
  readonly ratios: Readonly<Record<Names, Ratio>>;
  readonly tables: readonly Table[];
  readonly problems: readonly string[];
  /** Sentences that a reader of the figures must know. */
  readonly notes: readonly string[];
}

/** What a benchmark requires, and how to get it if it is missing. */
export type Need =
  | { readonly program: string; readonly hint: string }
  | { readonly file: string; readonly hint: string }
  | { readonly platform: NodeJS.Platform; readonly hint: string }
  | { readonly called: string; readonly isThere: () => boolean; readonly hint: string };

export interface RunContext {
  /** Alternating rounds, at least 5. */
  readonly rounds: number;
  /** Less of everything except rounds: to try a change, not to publish. */
  readonly quick: boolean;
  /** Reports to the waiting user what is being done. */
  readonly progress: (message: string) => void;
}

/** One claim about speed or size, and how it is measured. */
export interface Benchmark<Names extends string = string> {
  readonly name: string;
  /** The work that is done. */
  readonly what: string;
  /** The alternative that a user would choose. */
  readonly against: string;
  readonly goals: Readonly<Record<Names, Goal>>;
  readonly needs: readonly Need[];
  /** The other side is also this service: the figure shows only whether it got slower. Reports call it a regression bound. */
  readonly regressionBound?: true;
  /** Runs only if it is named: a tool for choosing settings. */
  readonly onDemand?: boolean;
  run(context: RunContext): Promise<Outcome<Names>>;
}

/** Declares a benchmark; a goal without a ratio, or a ratio without a goal, does not compile. */
export function defineBenchmark<const Names extends string>(benchmark: Benchmark<Names>): Benchmark<Names> {
  return benchmark;
}

/** Whether a ratio reaches its goal. Four decimals count: smaller differences are noise of the clock. */
export function reaches(goal: Goal, { value }: Ratio): boolean {
  const rounded = Math.round(value * 10_000) / 10_000;
  return 'atMost' in goal ? rounded <= goal.atMost : rounded >= goal.atLeast;
}
