/**
 * A function that puts what stands for it in the place of each text that nobody may read: paths of this machine, secrets. The
 * longest first, so that no part of a path is left of a longer one.
 */
export function hiderOf(hidden: Readonly<Record<string, string>>): (text: string) => string {
  const pairs = Object.entries(hidden)
    .filter(([text]) => text !== '')
    .sort(([a], [b]) => b.length - a.length);
  return (text) => pairs.reduce((shown, [secret, name]) => shown.replaceAll(secret, name), text);
}
