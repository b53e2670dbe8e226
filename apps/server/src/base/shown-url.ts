/**
 * A source's URL without what may be a secret: query, fragment, user name and password. The only form that leaves the
 * service, and the only one that is logged.
 */
export function shownUrl(url: string | URL): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
