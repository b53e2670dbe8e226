/** The SHA-256 of the original that is kept under an object key; null where it is the key of something else. */
export function contentOfOriginal(objectKey: string): string | null {
  return /^originals\/..\/([0-9a-f]{64})$/.exec(objectKey)?.[1] ?? null;
}
