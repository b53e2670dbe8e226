/** The wait that a Retry-After asks for (RFC 9110, 10.2.3), in milliseconds; null where there is none. @param nowMs the wall clock */
export function parseRetryAfterMs(field: string | undefined, nowMs: number): number | null {
  if (field === undefined) return null;
  if (/^\s*\d{1,9}\s*$/.test(field)) return Number(field) * 1000;
  const at = Date.parse(field);
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs);
}
