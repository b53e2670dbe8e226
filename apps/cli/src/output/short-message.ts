/**
 * Removes the list of all accepted formats from a problem's message: it would be repeated for every file. The message refers to
 * `mds formats` instead.
 */
export function shortMessage(message: string): string {
  return message.replace(/\. Accepted formats: [^\n]*$/, ' (see mds formats).');
}
