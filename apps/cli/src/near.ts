/** Finds the candidates that a mistyped word may mean: one edit away, or two if it has eight letters or more. */
export function similarWords(word: string, candidates: readonly string[]): string[] {
  const allowed = word.length < 8 ? 1 : 2;
  return candidates.filter((candidate) => edits(word, candidate) <= allowed);
}

/**
 * Removes far-off suggestions from an error message of commander. "Did you mean --version?" helps nobody who meant --region.
 */
export function removeFarSuggestions(message: string): string {
  const [whole, typed = '', listed = ''] = /'([^'\n]+)'\n\(Did you mean (?:one of )?([^?\n]+)\?\)/.exec(message) ?? [];
  if (whole === undefined) return message;
  const bare = (text: string) => text.replace(/^--/, '');
  const near = listed.split(', ').filter((name) => similarWords(bare(typed), [bare(name)]).length > 0);
  const [only] = near;
  if (only === undefined) return message.replace(whole, `'${typed}'`);
  return message.replace(whole, `'${typed}'\n(Did you mean ${near.length > 1 ? `one of ${near.join(', ')}` : only}?)`);
}

/** The number of letters to insert, delete, replace or swap with a neighbour (optimal string alignment distance). */
function edits(a: string, b: string): number {
  let earlier: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const line = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const at = (cells: readonly number[], index: number) => cells[index] ?? Number.POSITIVE_INFINITY;
      const isSame = a[row - 1] === b[column - 1];
      const isSwapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      line.push(
        Math.min(
          at(above, column) + 1,
          at(line, column - 1) + 1,
          at(above, column - 1) + (isSame ? 0 : 1),
          isSwapped ? at(earlier, column - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    earlier = above;
    above = line;
  }
  return above[b.length] ?? 0;
}
