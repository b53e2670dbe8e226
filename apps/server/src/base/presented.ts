/**
 * A record of the contract as a presenter must build it: with every field, optional ones too. A field that is added to a
 * contract schema does not compile until it is served. An extra field never compiles in a literal.
 */
export type Presented<T> = { [K in keyof Required<T>]: T[K] };

/** An instant as the API writes it: ISO 8601 in UTC, second precision. @param ms milliseconds since the epoch */
export function timestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
