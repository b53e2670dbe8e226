/** The words that may have been meant by one that is mistyped: a letter too many, too few, another one, or two swapped; in long words two. */
export function nearOf(word: string, candidates: readonly string[]): string[] {
  const allowed = word.length < 8 ? 1 : 2;
  return candidates.filter((candidate) => edits(word, candidate) <= allowed);
}

/**
 * A message about what is mistyped, as commander writes it, without suggestions that are far off: to be asked "Did you mean
 * --version?" where --region was meant helps nobody.
 */
export function withoutFarSuggestions(message: string): string {
  const [whole, typed = '', listed = ''] = /'([^'\n]+)'\n\(Did you mean (?:one of )?([^?\n]+)\?\)/.exec(message) ?? [];
  if (whole === undefined) return message;
  const bare = (text: string) => text.replace(/^--/, '');
  const near = listed.split(', ').filter((name) => nearOf(bare(typed), [bare(name)]).length > 0);
  const [only] = near;
  if (only === undefined) return message.replace(whole, `'${typed}'`);
  return message.replace(whole, `'${typed}'\n(Did you mean ${near.length > 1 ? `one of ${near.join(', ')}` : only}?)`);
}

/** The distance of two words in letters put in, left out, replaced, and neighbours swapped (optimal string alignment). */
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
