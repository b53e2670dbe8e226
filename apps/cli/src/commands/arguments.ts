import { InvalidArgumentError } from 'commander';

/** Reads the size of one page: a whole number, 1 to 100. */
export function pageSize(text: string): number {
  return wholeNumber(text, 1, 100);
}

/** Reads a count of at least one. */
export function positiveCount(text: string): number {
  return wholeNumber(text, 1, Number.MAX_SAFE_INTEGER);
}

/** Reads how many files to send at once, 1 to 16. */
export function parallelism(text: string): number {
  return wholeNumber(text, 1, 16);
}

/** Reads how many seconds the service may wait for nodes, 0 to 30. */
export function secondsToWait(text: string): number {
  return wholeNumber(text, 0, 30);
}

/** Reads the code of a region. */
export function regionCode(text: string): string {
  return matching(text, /^[a-z]{2,8}[0-9]$/, 'It must be 2 to 8 lower-case letters and a digit, such as fra1.');
}

/** Reads the name of a node. */
export function nodeName(text: string): string {
  return matching(text, /^[\x21-\x7e]{1,128}$/, 'It must be a name as mds regions list --all prints it.');
}

/** Reads the id of a media object. */
export function mediaId(text: string): string {
  const form = 'It must be med_ and 26 lower-case letters and digits, as mds media list prints it.';
  return matching(text, /^med_[0-9a-z]{26}$/, form);
}

/** Reads the zone of a region. */
export function zoneName(text: string): string {
  return matching(text, /^[a-z]+-[a-z]+$/, 'It must be two words in lower-case letters, such as europe-central.');
}

/** Reads a country by its ISO 3166-1 code. */
export function countryCode(text: string): string {
  return matching(text, /^[A-Z]{2}$/, 'It must be two upper-case letters, such as DE.');
}

function matching(text: string, pattern: RegExp, otherwise: string): string {
  if (pattern.test(text)) return text;
  throw new InvalidArgumentError(otherwise);
}

function wholeNumber(text: string, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new InvalidArgumentError(
    max === Number.MAX_SAFE_INTEGER
      ? `It must be a whole number from ${min} up.`
      : `It must be a whole number from ${min} to ${max}.`,
  );
}
