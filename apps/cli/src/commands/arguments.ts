import { InvalidArgumentError } from 'commander';

/** Reads the size of one page: a whole number, 1 to 100. */
export function pageSize(text: string): number {
  return wholeNumber(text, 1, 100);
}

/** Reads a count of at least one. */
export function positiveCount(text: string): number {
  return wholeNumber(text, 1, Number.MAX_SAFE_INTEGER);
}

/** Reads how many things may be done at once, 1 to 16. */
export function parallelism(text: string): number {
  return wholeNumber(text, 1, 16);
}

function wholeNumber(text: string, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new InvalidArgumentError(
    max === Number.MAX_SAFE_INTEGER
      ? `It has to be a whole number from ${min} up.`
      : `It has to be a whole number from ${min} to ${max}.`,
  );
}
