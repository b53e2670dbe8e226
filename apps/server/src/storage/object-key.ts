/** A segment never begins with a dot: that rules out `.` and `..`, and leaves such names to the store itself. */
const SEGMENT = '[a-z0-9_-][a-z0-9._-]{0,199}';
const KEY = new RegExp(`^${SEGMENT}(/${SEGMENT})*$`);
const MAX_KEY_LENGTH = 512;

/** Whether this may be the key of an object. */
export function isObjectKey(key: string): boolean {
  return key.length <= MAX_KEY_LENGTH && KEY.test(key);
}

/** @throws RangeError for what is no key */
export function assertObjectKey(key: string): void {
  if (!isObjectKey(key)) throw new RangeError(`"${key}" is not an object key.`);
}
