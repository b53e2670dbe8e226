const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const TIME = '(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)';
const MONTH = `(?<month>${MONTHS.join('|')})`;

/** RFC 9110, 5.6.7: IMF-fixdate, and the two obsolete forms that a recipient must still accept. */
const FORMS = [
  new RegExp(`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\\d\\d) ${MONTH} (?<year>\\d{4}) ${TIME} GMT$`),
  new RegExp(`^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\\d\\d)-${MONTH}-(?<year>\\d\\d) ${TIME} GMT$`),
  new RegExp(`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ${MONTH} (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})$`),
];

/**
 * Parses an HTTP-date. Stricter than `Date.parse`, which accepts nearly anything: an invalid date must be ignored.
 * @param nowMs decides the century of a two-digit year: never more than 50 years ahead (RFC 9110, 5.6.7)
 * @returns milliseconds since the epoch, or null
 */
export function parseHttpDate(text: string, nowMs: number = Date.now()): number | null {
  const groups = FORMS.map((form) => form.exec(text)?.groups).find((match) => match !== undefined);
  if (!groups) return null;
  const number = (name: string) => Number(groups[name]);
  const thisYear = new Date(nowMs).getUTCFullYear();
  let year = number('year');
  if (groups['year']?.length === 2) {
    year += thisYear - (thisYear % 100);
    if (year > thisYear + 50) year -= 100;
  }
  const month = MONTHS.indexOf(groups['month'] ?? '');
  const [day, hour, minute, second] = [number('day'), number('hour'), number('minute'), number('second')];
  // 60 is a leap second; Date.UTC carries it into the next minute.
  if (hour > 23 || minute > 59 || second > 60) return null;
  const midnight = new Date(Date.UTC(year, month, day));
  if (midnight.getUTCDate() !== day || midnight.getUTCMonth() !== month) return null;
  return Date.UTC(year, month, day, hour, minute, second);
}

/** Formats an instant as IMF-fixdate, rounded down to a second. */
export function formatHttpDate(atMs: number): string {
  return new Date(atMs).toUTCString();
}
