import { randomBytes } from 'node:crypto';

/** The JPEG with a comment (ITU-T T.81, B.2.4.5) right after its first marker: other bytes, the same picture. */
export function unlikeAnyOther(jpeg: Buffer): Buffer<ArrayBuffer> {
  const comment = randomBytes(16);
  const head = Buffer.from([0xff, 0xfe, 0, comment.length + 2]);
  return Buffer.concat([jpeg.subarray(0, 2), head, comment, jpeg.subarray(2)]);
}
