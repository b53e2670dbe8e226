import {
  bigint,
  boolean,
  customType,
  doublePrecision,
  foreignKey,
  index,
  integer,
  pgTable,
  primaryKey,
  unique,
} from 'drizzle-orm/pg-core';
import { storableText } from '../storable.ts';

const storedText = customType<{ data: string; driverData: string }>({
  // Sorted by bytes, as in SQLite. A system upgrade can change the order of a locale under an index.
  dataType: () => 'text COLLATE "C"',
  toDriver: storableText,
});

const storedJson = customType<{ data: unknown; driverData: string }>({
  // Not `jsonb`, which loses the order of keys and refuses some strings.
  dataType: () => 'json',
  toDriver: (value) => JSON.stringify(value),
});

const storedBytes = customType<{ data: Buffer; driverData: Buffer }>({ dataType: () => 'bytea' });

/** The column types of PostgreSQL. */
export const postgresColumns = {
  table: pgTable,
  /** Text of any length. The type may limit its values. */
  text: <T extends string = string>(name: string) => storedText(name).$type<T>(),
  integer: (name: string) => integer(name),
  /** For values that may exceed 2^31: bytes, milliseconds, counters. All of ours are exact as JavaScript numbers. */
  bigint: (name: string) => bigint(name, { mode: 'number' }),
  sequence: (name: string) => bigint(name, { mode: 'number' }).primaryKey().generatedByDefaultAsIdentity(),
  double: (name: string) => doublePrecision(name),
  boolean: (name: string) => boolean(name),
  json: <T>(name: string) => storedJson(name).$type<T>(),
  bytes: (name: string) => storedBytes(name),
  index,
  unique,
  primaryKey,
  foreignKey,
};
