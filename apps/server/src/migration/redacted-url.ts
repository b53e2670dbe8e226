/** A URL with a placeholder instead of its password, for display; only the placeholder if it is no URL. */
export function redactedUrl(text: string): string {
  if (!URL.canParse(text)) return 'PASSWORD';
  const url = new URL(text);
  if (url.password !== '') url.password = 'PASSWORD';
  for (const name of ['password', 'sslpassword']) {
    if (url.searchParams.has(name)) url.searchParams.set(name, 'PASSWORD');
  }
  return url.href;
}
