/** One run of a program during a render, as `explain` shows it. Paths are replaced by names. */
export interface ProgramRun {
  /** The purpose: `ladder`, `poster`. */
  readonly step: string;
  readonly argv: readonly string[];
  readonly ms: number;
  readonly cpuMs: number | null;
  /** Peak resident memory. Null if the run ended before it was measured, or if the platform cannot measure it. */
  readonly maxMemoryBytes: number | null;
  /** `ok`, or how the run ended. */
  readonly outcome: string;
  /** The last lines of standard error. */
  readonly stderrTail: readonly string[];
}
