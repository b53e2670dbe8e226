/** What an error and its causes say, without stacks. */
export function reasonOf(error: unknown): string {
  const sentences: string[] = [];
  for (let each = error; each !== undefined && each !== null && sentences.length < 5; ) {
    const { message, code, cause } = each as { message?: unknown; code?: unknown; cause?: unknown };
    // Where several addresses were tried, only the code says what happened.
    const said = String(message || code || each);
    if (!sentences.includes(said)) sentences.push(said);
    each = cause;
  }
  return sentences.join(' ');
}
