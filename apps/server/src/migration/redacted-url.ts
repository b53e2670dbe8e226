/** An address with a word in place of its password, to be shown; the word alone where it is no address. */
export function redactedUrl(text: string): string {
  if (!URL.canParse(text)) return 'PASSWORD';
  const url = new URL(text);
  if (url.password !== '') url.password = 'PASSWORD';
  for (const name of ['password', 'sslpassword']) {
    if (url.searchParams.has(name)) url.searchParams.set(name, 'PASSWORD');
  }
  return url.href;
}
