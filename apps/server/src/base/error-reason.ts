/** The messages of an error and its causes, without stacks. */
export function reasonOf(error: unknown): string {
  const sentences: string[] = [];
  for (let each = error; each !== undefined && each !== null && sentences.length < 5; ) {
    const { message, code, cause } = each as { message?: unknown; code?: unknown; cause?: unknown };
    // If several addresses were tried, the message is empty and only the code has the reason.
    const sentence = String(message || code || each);
    if (!sentences.includes(sentence)) sentences.push(sentence);
    each = cause;
  }
  return sentences.join(' ');
}
