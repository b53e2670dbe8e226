/**
 * A URL without what may be a secret: user name, password, query and fragment. The only form that is printed; the service shows
 * no other either.
 * @param url may be no valid URL: what was mistyped holds secrets, too
 */
export function shownUrl(url: string): string {
  const [bare = ''] = url.split(/[?#]/, 1);
  // By its parts and not as a parser would make it anew: it should look as its user wrote it.
  return bare.replace(/^([a-z][a-z\d+.-]*:[\\/]*)[^\\/]*@/i, '$1');
}
