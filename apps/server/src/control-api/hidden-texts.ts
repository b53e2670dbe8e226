/**
 * Makes a function that replaces each secret text, such as a path of this machine or a token, by its public name. The longest is replaced
 * first, so that no rest of a longer path remains.
 */
export function hiderOf(hidden: Readonly<Record<string, string>>): (text: string) => string {
  const pairs = Object.entries(hidden)
    .filter(([text]) => text !== '')
    .sort(([a], [b]) => b.length - a.length);
  return (text) => pairs.reduce((shown, [secret, name]) => shown.replaceAll(secret, name), text);
}
