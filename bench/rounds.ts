/** One side of a measurement: does its work once and returns the figure, in the unit of its benchmark. */
export type Side = () => Promise<number>;

/**
 * Measures the sides in turn, `rounds` times, after one turn each that does not count. Every other round runs in reverse, so that
 * no side always follows the same other one.
 */
export async function alternate<Names extends string>(
  sides: Readonly<Record<Names, Side>>,
  rounds: number,
  progress: (message: string) => void,
): Promise<Record<Names, number[]>> {
  const entries = Object.entries<Side>(sides) as [Names, Side][];
  // fromEntries loses the literal types of the names.
  const measured = Object.fromEntries(entries.map(([name]) => [name, []])) as unknown as Record<Names, number[]>;
  for (const [name, measure] of entries) {
    progress(`warm-up: ${name}`);
    await measure();
  }
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? entries : entries.toReversed();
    for (const [name, measure] of order) {
      progress(`round ${round + 1} of ${rounds}: ${name}`);
      measured[name].push(await measure());
    }
  }
  return measured;
}
