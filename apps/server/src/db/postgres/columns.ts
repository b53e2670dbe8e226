import { bigint, customType } from 'drizzle-orm/pg-core';

const storedText = customType<{ data: string; driverData: string }>({
  // In the order of bytes, as in SQLite: no locale's order, which an upgrade of the system could change under an index.
  dataType: () => 'text COLLATE "C"',
  toDriver: storableText,
});

const storedJson = customType<{ data: unknown; driverData: string }>({
  // Not `jsonb`, which forgets the order of keys and refuses some strings: what was written is read.
  dataType: () => 'json',
  toDriver: (value) => JSON.stringify(value),
});

const storedBytes = customType<{ data: Buffer; driverData: Buffer }>({ dataType: () => 'bytea' });

/** Text as it can be stored: PostgreSQL's cannot hold NUL (U+0000), which names of files and sent paths may; it becomes U+FFFD. */
export function storableText(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text;
}

/** What a prepared query is given, as {@link storableText}: its placeholders know nothing of the columns that they are compared with. */
export function storableValues<T extends Record<string, string | number | null>>(values: T): T {
  const storable = Object.entries(values).map(([name, value]) => [
    name,
    typeof value === 'string' ? storableText(value) : value,
  ]);
  return Object.fromEntries(storable) as T;
}

/** Text of any length; of certain words where a type says so. */
export function text<T extends string = string>(name: string) {
  return storedText(name).$type<T>();
}

/** A document. */
export function json<T>(name: string) {
  return storedJson(name).$type<T>();
}

export function bytea(name: string) {
  return storedBytes(name);
}

/** What may exceed 2^31: bytes, milliseconds, counters. All of ours are exact as numbers of JavaScript. */
export function int8(name: string) {
  return bigint(name, { mode: 'number' });
}
