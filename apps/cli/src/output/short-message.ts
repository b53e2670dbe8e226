/**
 * A problem's message without the list of all formats that are accepted, which would hide the rest where it stands for every file:
 * `mds formats` has it.
 */
export function shortMessage(message: string): string {
  return message.replace(/\. Accepted formats: [^\n]*$/, ' (see mds formats).');
}
