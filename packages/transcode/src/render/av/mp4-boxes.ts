/** A box of the ISO base media file format (ISO/IEC 14496-12), without its header. */
export interface Box {
  readonly type: string;
  readonly body: Buffer;
  /** Including its header. */
  readonly whole: Buffer;
}

/** A file of that format is invalid. */
export class BoxError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'BoxError';
  }
}

/** The size of a box and of its header, from its first 16 bytes (fewer at the end of a file). */
export function boxHeader(bytes: Buffer): { type: string; size: number; headerSize: number } {
  if (bytes.length < 8) throw new BoxError('A box is cut off in its header.');
  const type = bytes.toString('latin1', 4, 8);
  const short = bytes.readUInt32BE(0);
  if (short !== 1) return { type, size: short, headerSize: 8 };
  if (bytes.length < 16) throw new BoxError(`The box ${printable(type)} is cut off in its header.`);
  return { type, size: Number(bytes.readBigUInt64BE(8)), headerSize: 16 };
}

/** A type with all unusual bytes replaced, for use in a sentence. */
export function printable(type: string): string {
  return type.replaceAll(/[^\w .-]/g, '?');
}

/** The consecutive boxes in these bytes. */
export function boxesIn(bytes: Buffer): Box[] {
  const boxes: Box[] = [];
  for (let at = 0; at < bytes.length; ) {
    const { type, size, headerSize } = boxHeader(bytes.subarray(at, at + 16));
    const end = size === 0 ? bytes.length : at + size;
    if (end > bytes.length || end < at + headerSize)
      throw new BoxError(`The box ${printable(type)} has an impossible size.`);
    boxes.push({ type, body: bytes.subarray(at + headerSize, end), whole: bytes.subarray(at, end) });
    at = end;
  }
  return boxes;
}

/** The first box of that type, or null. */
export function findBox(bytes: Buffer, type: string): Box | null {
  return boxesIn(bytes).find((box) => box.type === type) ?? null;
}

/** The box at the end of a path of types, such as `mdia`, `minf`, `stbl`. */
export function needBox(bytes: Buffer, ...types: readonly string[]): Box {
  let found: Box | null = null;
  for (const type of types) {
    found = findBox(found?.body ?? bytes, type);
    if (found === null) throw new BoxError(`There is no box ${types.join('/')}.`);
  }
  if (found === null) throw new BoxError('The path of boxes is empty.');
  return found;
}

/** A box with this content. */
export function box(type: string, ...parts: readonly Uint8Array[]): Buffer {
  const size = parts.reduce((sum, { length }) => sum + length, 8);
  return Buffer.concat([u32(size), Buffer.from(type, 'latin1'), ...parts], size);
}

/** A box whose content begins with a version and 24 flags. */
export function fullBox(type: string, version: number, flags: number, ...parts: readonly Uint8Array[]): Buffer {
  return box(type, u32(((version << 24) | flags) >>> 0), ...parts);
}

/** 32-bit words, most significant byte first; negative ones as two's complement. */
export function u32(...values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(4 * values.length);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value >>> 0, 4 * index);
  return bytes;
}

export function u16(...values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(2 * values.length);
  for (const [index, value] of values.entries()) bytes.writeUInt16BE(value, 2 * index);
  return bytes;
}

export function u64(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}
