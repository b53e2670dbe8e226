/** Replaces NUL (U+0000), which PostgreSQL text cannot hold but file names and paths may contain, by U+FFFD. */
export function storableText(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text;
}

/** Applies {@link storableText} to the values of a prepared query, whose placeholders do not know the types of their columns. */
export function storableValues<T extends Record<string, unknown>>(values: T): T {
  const storable = Object.entries(values).map(([name, value]) => [
    name,
    typeof value === 'string' ? storableText(value) : value,
  ]);
  return Object.fromEntries(storable) as T;
}
