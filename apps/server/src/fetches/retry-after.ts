/** The wait that a Retry-After asks for (RFC 9110, 10.2.3), in milliseconds; null if there is none. @param nowMs the wall clock */
export function parseRetryAfterMs(field: string | undefined, nowMs: number): number | null {
  if (field === undefined) return null;
  if (/^\s*\d{1,9}\s*$/.test(field)) return Number(field) * 1000;
  // Every HTTP date begins with a day's name; Date.parse alone would take "1.5" for a year.
  const at = /^\s*[A-Z][a-z]{2}/.test(field) ? Date.parse(field) : Number.NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs);
}
