import { z } from 'zod';

/** A setting of the service: the environment variable that gives it, and the values that it may have. */
export interface Setting<T> {
  name: string;
  schema: z.ZodType<T>;
}

/** Settings by their names in code. */
export type SettingGroup = Readonly<Record<string, Setting<unknown>>>;

/** The values of a group of settings. */
export type SettingsOf<G extends SettingGroup> = { readonly [K in keyof G]: G[K] extends Setting<infer T> ? T : never };

/** Every problem of a configuration at once, one line each. */
export class ConfigError extends Error {
  readonly problems: string[];
  constructor(problems: string[], options?: ErrorOptions) {
    super(`The configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`, options);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** @param name of the environment variable */
export function setting<T>(name: string, schema: z.ZodType<T>): Setting<T> {
  return { name, schema };
}

/** A value that may be left out: null then. */
export function optional<T>(schema: z.ZodType<T>): z.ZodType<T | null> {
  return schema.optional().transform((value) => value ?? null);
}

/**
 * Reads settings from an environment. An empty variable counts as not set.
 * @throws ConfigError that lists every wrong setting
 */
export function readSettings<G extends SettingGroup>(
  group: G,
  environment: Readonly<Record<string, string | undefined>>,
): SettingsOf<G> {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [key, { name, schema }] of Object.entries(group)) {
    const parsed = schema.safeParse(environment[name] === '' ? undefined : environment[name]);
    if (parsed.success) values[key] = parsed.data;
    else problems.push(...new Set(parsed.error.issues.map(({ message }) => `${name}: ${message}`)));
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return values as SettingsOf<G>;
}

export const GIB = 1024 ** 3;
export const MIB = 1024 ** 2;

/** A size in bytes: digits, or digits and a binary unit (`512MiB`, `10GiB`). */
export const byteSize = z.string().transform((text, context) => {
  const match = /^(\d{1,15})\s*(B|KiB|MiB|GiB|TiB)?$/i.exec(text.trim());
  const power = ['b', 'kib', 'mib', 'gib', 'tib'].indexOf(match?.[2]?.toLowerCase() ?? 'b');
  const value = Number(match?.[1]) * 1024 ** power;
  if (!match || !Number.isSafeInteger(value)) {
    context.addIssue({ code: 'custom', message: 'must be a number of bytes, such as 1048576 or 10GiB' });
    return z.NEVER;
  }
  return value;
});

export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));

/** The address of an HTTP server, without a trailing slash. */
export const httpUrl = z
  .url({ protocol: /^https?$/, message: 'must be an http:// or https:// address' })
  .transform((url) => url.replace(/\/+$/, ''));

/**
 * Text that a parser accepts.
 * @param parse throws `Refusal` for text that it does not accept
 * @param problem returns the description of the problem; it must not repeat the text, which may hold a password
 */
export function parsedBy<T>(
  parse: (text: string) => T,
  Refusal: new (...args: never[]) => Error,
  problem: (reason: string) => string,
): z.ZodType<T> {
  return z.string().transform((text, context) => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      context.addIssue({ code: 'custom', message: problem(error.message) });
      return z.NEVER;
    }
  });
}

/** Entries separated by commas. */
export function commaList<T>(entry: z.ZodType<T, string>): z.ZodType<readonly T[]> {
  return z
    .string()
    .transform((text) => text.split(',').map((part) => part.trim()))
    .pipe(z.array(entry));
}
