import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** A header points at bytes beyond the end of the file. */
export class EndOfFileError extends Error {
  constructor(offset: number, length: number, size: number) {
    super(`The file has ${size} bytes; ${length} more were expected from byte ${offset}.`);
    this.name = 'EndOfFileError';
  }
}

/** Random access to the bytes of a file, for header parsers. The name of each method has its byte order. */
export interface Bytes {
  readonly size: number;
  /** Up to `length` bytes at `offset`: fewer, perhaps none, at the end of the file. */
  peek(offset: number, length: number): Buffer;
  /** Exactly `length` bytes at `offset`. Throws an `EndOfFileError` if the file has fewer. */
  take(offset: number, length: number): Buffer;
  u8(offset: number): number;
  u16be(offset: number): number;
  u16le(offset: number): number;
  u24le(offset: number): number;
  u32be(offset: number): number;
  u32le(offset: number): number;
}

export interface OpenBytes extends Bytes {
  close(): void;
}

const windowBytes = 64 * 1024;

/**
 * Opens a file. Reads are synchronous and use a window of 64 KiB: header parsers move through files in small steps, and they
 * run in a child process with no other work.
 */
export function openBytes(path: string): OpenBytes {
  const file = openSync(path, 'r');
  const { size } = fstatSync(file);
  let window: Buffer = Buffer.alloc(0);
  let start = 0;

  const read = (offset: number, length: number): Buffer => {
    const wanted = Math.max(0, Math.min(length, size - offset));
    const target = Buffer.allocUnsafe(wanted);
    let filled = 0;
    while (filled < wanted) {
      const count = readSync(file, target, filled, wanted - filled, offset + filled);
      if (count === 0) break;
      filled += count;
    }
    return target.subarray(0, filled);
  };

  return {
    ...readers(size, (offset, length) => {
      if (offset < 0 || offset >= size) return Buffer.alloc(0);
      if (length > windowBytes) return read(offset, length);
      if (offset < start || offset + length > start + window.length) {
        start = offset;
        window = read(offset, windowBytes);
      }
      return window.subarray(offset - start, offset - start + length);
    }),
    close: () => closeSync(file),
  };
}

/** The same interface for bytes in memory. */
export function bytesOf(buffer: Uint8Array): Bytes {
  const whole = Buffer.from(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  return readers(whole.length, (offset, length) =>
    offset < 0 ? Buffer.alloc(0) : whole.subarray(offset, offset + length),
  );
}

function readers(size: number, peek: Bytes['peek']): Bytes {
  const take = (offset: number, length: number): Buffer => {
    const bytes = peek(offset, length);
    if (bytes.length < length) throw new EndOfFileError(offset, length, size);
    return bytes;
  };
  return {
    size,
    peek,
    take,
    u8: (offset) => take(offset, 1).readUInt8(0),
    u16be: (offset) => take(offset, 2).readUInt16BE(0),
    u16le: (offset) => take(offset, 2).readUInt16LE(0),
    u24le: (offset) => take(offset, 3).readUIntLE(0, 3),
    u32be: (offset) => take(offset, 4).readUInt32BE(0),
    u32le: (offset) => take(offset, 4).readUInt32LE(0),
  };
}
