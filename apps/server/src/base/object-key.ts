/** A segment never begins with a dot: this rules out `.` and `..`, and leaves such names to the store itself. */
const SEGMENT = '[a-z0-9_-][a-z0-9._-]{0,199}';
const KEY = new RegExp(`^${SEGMENT}(/${SEGMENT})*$`);
const MAX_KEY_LENGTH = 512;

/** Whether this may be the key of an object. */
export function isObjectKey(key: string): boolean {
  return key.length <= MAX_KEY_LENGTH && KEY.test(key);
}

/** @throws RangeError if the text is not an object key */
export function assertObjectKey(key: string): void {
  if (!isObjectKey(key)) throw new RangeError(`"${key}" is not an object key.`);
}

/** Key of an original. */
export function originalKey(sha256: string): string {
  return `originals/${sha256.slice(0, 2)}/${sha256}`;
}

/** Prefix of the keys of all renditions of the original with this hash. */
export function renditionsPrefix(sourceSha256: string): string {
  return `renditions/${sourceSha256.slice(0, 2)}/${sourceSha256}/`;
}

/** Key of a rendition of the original with this hash: the same input gives the same key, whichever media object asks. */
export function renditionKey(rendition: {
  sourceSha256: string;
  name: string;
  revision: string;
  extension: string;
}): string {
  const { sourceSha256, name, revision, extension } = rendition;
  return `${renditionsPrefix(sourceSha256)}${name}.${revision}.${extension}`;
}

/** Key of a file of a rendition that consists of several; `file` is its path below the rendition's folder. */
export function renditionFileKey(rendition: {
  sourceSha256: string;
  name: string;
  revision: string;
  file: string;
}): string {
  const { sourceSha256, name, revision, file } = rendition;
  return `${renditionsPrefix(sourceSha256)}${name}.${revision}/${file}`;
}
