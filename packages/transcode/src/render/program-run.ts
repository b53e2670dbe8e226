/** One run of a program under a render: what `explain` shows. Paths are replaced by names. */
export interface ProgramRun {
  /** What it was for: `ladder`, `poster`. */
  readonly step: string;
  readonly argv: readonly string[];
  readonly ms: number;
  readonly cpuMs: number | null;
  /** Resident memory at its most; null for a run that was over before it was measured, and where nothing measures it. */
  readonly maxMemoryBytes: number | null;
  /** `ok`, or how it ended. */
  readonly outcome: string;
  /** The last lines that it wrote to stderr. */
  readonly stderrTail: readonly string[];
}
