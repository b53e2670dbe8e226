/** Builds a box of an ISO base media file. */
export function box(type: string, ...body: Uint8Array[]): Buffer {
  const content = Buffer.concat(body);
  const head = Buffer.alloc(8);
  head.writeUInt32BE(content.length + 8, 0);
  head.write(type, 4, 'latin1');
  return Buffer.concat([head, content]);
}

interface Part {
  type: string;
  body: Buffer;
}

function partsOf(file: Buffer): Part[] {
  const parts: Part[] = [];
  for (let offset = 0; offset + 8 <= file.length; ) {
    const length = file.readUInt32BE(offset);
    parts.push({
      type: file.toString('latin1', offset + 4, offset + 8),
      body: Buffer.from(file.subarray(offset + 8, offset + length)),
    });
    offset += length;
  }
  return parts;
}

/** A copy of an HEIC or AVIF whose primary image has further properties: `irot`, `imir`, `colr`. */
export function withProperties(file: Buffer, properties: readonly Buffer[]): Buffer {
  const grown = rebuild(file, properties, 0);
  return rebuild(file, properties, grown.length - file.length);
}

function rebuild(file: Buffer, properties: readonly Buffer[], shift: number): Buffer {
  return Buffer.concat(
    partsOf(file).map(({ type, body }) => {
      if (type !== 'meta') return box(type, body);
      const inner = partsOf(body.subarray(4));
      const primary = inner.find((part) => part.type === 'pitm')?.body.readUInt16BE(4) ?? 0;
      return box(
        'meta',
        body.subarray(0, 4),
        ...inner.map((part) => {
          if (part.type === 'iloc') return box('iloc', shiftedLocations(part.body, shift));
          if (part.type === 'iprp') return box('iprp', extendedProperties(part.body, primary, properties));
          return box(part.type, part.body);
        }),
      );
    }),
  );
}

/** `ipma` of version 0 with one-byte indices, as heif-enc and libvips write it. */
function extendedProperties(body: Buffer, primary: number, properties: readonly Buffer[]): Buffer {
  const [container, associations] = partsOf(body);
  if (!container || !associations) throw new Error('expected ipco and ipma');
  const first = partsOf(container.body).length + 1;
  const entries: Buffer[] = [];
  const table = associations.body;
  for (let offset = 8; offset < table.length; ) {
    const item = table.readUInt16BE(offset);
    const count = table.readUInt8(offset + 2);
    const indices = [...table.subarray(offset + 3, offset + 3 + count)];
    if (item === primary) indices.push(...properties.map((_, index) => (first + index) | 0x80));
    entries.push(Buffer.from([item >> 8, item & 255, indices.length, ...indices]));
    offset += 3 + count;
  }
  return Buffer.concat([box('ipco', container.body, ...properties), box('ipma', table.subarray(0, 8), ...entries)]);
}

/** Shifts offsets from the start of the file; those into `idat` stay. */
function shiftedLocations(body: Buffer, shift: number): Buffer {
  const moved = Buffer.from(body);
  const version = moved.readUInt8(0);
  const [offsetBytes, lengthBytes] = [moved.readUInt8(4) >> 4, moved.readUInt8(4) & 15];
  const baseBytes = moved.readUInt8(5) >> 4;
  const count = moved.readUInt16BE(6);
  let at = 8;
  for (let item = 0; item < count; item++) {
    const inFile = version === 0 || (moved.readUInt16BE(at + 2) & 15) === 0;
    at += version === 0 ? 4 : 6;
    const base = at;
    at += baseBytes;
    if (inFile && baseBytes === 4) moved.writeUInt32BE(moved.readUInt32BE(base) + shift, base);
    const extents = moved.readUInt16BE(at);
    at += 2;
    for (let extent = 0; extent < extents; extent++) {
      if (inFile && baseBytes === 0) moved.writeUInt32BE(moved.readUInt32BE(at) + shift, at);
      at += offsetBytes + lengthBytes;
    }
  }
  return moved;
}

export const irot = (quarterTurnsAnticlockwise: number): Buffer =>
  box('irot', Buffer.from([quarterTurnsAnticlockwise]));
export const imir = (axis: number): Buffer => box('imir', Buffer.from([axis]));
export const nclx = (primaries: number, transfer: number): Buffer =>
  box('colr', Buffer.from([...Buffer.from('nclx'), 0, primaries, 0, transfer, 0, 6, 0x80]));
