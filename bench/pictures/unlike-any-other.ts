import { randomBytes } from 'node:crypto';

/** Adds a comment (ITU-T T.81, B.2.4.5) after the first marker of a JPEG: other bytes, the same picture. */
export function unlikeAnyOther(jpeg: Buffer): Buffer<ArrayBuffer> {
  const comment = randomBytes(16);
  const head = Buffer.from([0xff, 0xfe, 0, comment.length + 2]);
  return Buffer.concat([jpeg.subarray(0, 2), head, comment, jpeg.subarray(2)]);
}
