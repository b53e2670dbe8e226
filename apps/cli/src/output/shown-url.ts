/**
 * A URL without possible secrets: user name, password, query and fragment. URLs are printed in this form only.
 * @param url may be invalid: a mistyped URL holds secrets, too
 */
export function shownUrl(url: string): string {
  const [bare = ''] = url.split(/[?#]/, 1);
  // No URL parser: the result should look as the user typed it.
  return bare.replace(/^([a-z][a-z\d+.-]*:[\\/]*)[^\\/]*@/i, '$1');
}
