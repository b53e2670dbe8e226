import type { HeifColor } from '../identify/image/heif.ts';

/** CIE 1931 xy of red, green and blue, by H.273 colour primaries. All of them have D65 as white. */
const primaries = new Map<number, ReadonlyArray<readonly [number, number]>>([
  [
    9,
    [
      [0.708, 0.292],
      [0.17, 0.797],
      [0.131, 0.046],
    ],
  ],
  [
    12,
    [
      [0.68, 0.32],
      [0.265, 0.69],
      [0.15, 0.06],
    ],
  ],
]);
const d65: readonly [number, number] = [0.3127, 0.329];
const d50 = [0.964212, 1, 0.825188] as const;

/** H.273 transfer characteristics of high dynamic range: PQ and HLG. */
const hdrTransfers: ReadonlySet<number> = new Set([16, 18]);

/** True if the code points need a brightness that a rendition in sRGB cannot show. */
export function isHdr({ nclx }: HeifColor): boolean {
  return nclx !== null && hdrTransfers.has(nclx.transfer);
}

/**
 * The ICC profile that defines an image's colours: its own, or one made from its code points. Null if the colours are sRGB
 * already, or if the code points are unknown.
 */
export function profileOf(color: HeifColor): Buffer | null {
  if (color.profile) return color.profile;
  const points = primaries.get(color.nclx?.primaries ?? 1);
  return points ? matrixProfile(points) : null;
}

/** An ICC profile (ICC.1:2010, version 4) from three primaries and sRGB's tone curve. */
function matrixProfile(points: ReadonlyArray<readonly [number, number]>): Buffer {
  const columns = colorants(points);
  const tags: Array<[string, Buffer]> = [
    ['desc', localized('RGB')],
    ['cprt', localized('CC0')],
    ['wtpt', xyz(d50)],
    ['rXYZ', xyz(columns[0])],
    ['gXYZ', xyz(columns[1])],
    ['bXYZ', xyz(columns[2])],
    ['rTRC', srgbCurve()],
    ['gTRC', srgbCurve()],
    ['bTRC', srgbCurve()],
  ];
  const table = Buffer.alloc(4 + tags.length * 12);
  table.writeUInt32BE(tags.length, 0);
  let offset = 128 + table.length;
  for (const [index, [name, data]] of tags.entries()) {
    table.write(name, 4 + index * 12, 'latin1');
    table.writeUInt32BE(offset, 8 + index * 12);
    table.writeUInt32BE(data.length, 12 + index * 12);
    offset += data.length;
  }
  const header = Buffer.alloc(128);
  header.writeUInt32BE(offset, 0);
  header.writeUInt32BE(0x04300000, 8);
  header.write('mntrRGB XYZ ', 12, 'latin1');
  header.write('acsp', 36, 'latin1');
  xyz(d50).copy(header, 68, 8);
  return Buffer.concat([header, table, ...tags.map(([, data]) => data)]);
}

type Vector = readonly [number, number, number];

/** XYZ of the three primaries relative to D50: scaled so that they add up to white, then adapted from D65 (Bradford). */
function colorants(points: ReadonlyArray<readonly [number, number]>): [Vector, Vector, Vector] {
  const toXyz = ([x, y]: readonly [number, number]): Vector => [x / y, 1, (1 - x - y) / y];
  const [r, g, b] = points.map(toXyz);
  if (!r || !g || !b) throw new RangeError('Three primaries are needed.');
  const white = toXyz(d65);
  const scale = solve([r, g, b], white);
  const adapt = (v: Vector): Vector => {
    const cone = bradford(v);
    const [from, to] = [bradford(white), bradford(d50)];
    return unbradford([(cone[0] * to[0]) / from[0], (cone[1] * to[1]) / from[1], (cone[2] * to[2]) / from[2]]);
  };
  const scaled = (v: Vector, by: number): Vector => [v[0] * by, v[1] * by, v[2] * by];
  return [adapt(scaled(r, scale[0])), adapt(scaled(g, scale[1])), adapt(scaled(b, scale[2]))];
}

const bradfordRows: readonly [Vector, Vector, Vector] = [
  [0.8951, 0.2664, -0.1614],
  [-0.7502, 1.7135, 0.0367],
  [0.0389, -0.0685, 1.0296],
];

function bradford(v: Vector): Vector {
  const dot = (row: Vector) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2];
  return [dot(bradfordRows[0]), dot(bradfordRows[1]), dot(bradfordRows[2])];
}

function unbradford(v: Vector): Vector {
  const [a, b, c] = bradfordRows;
  return solve(
    [
      [a[0], b[0], c[0]],
      [a[1], b[1], c[1]],
      [a[2], b[2], c[2]],
    ],
    v,
  );
}

/** The factors with which three columns add up to a target (Cramer's rule). */
function solve([a, b, c]: readonly [Vector, Vector, Vector], target: Vector): Vector {
  const determinant = (p: Vector, q: Vector, r: Vector) =>
    p[0] * (q[1] * r[2] - q[2] * r[1]) - q[0] * (p[1] * r[2] - p[2] * r[1]) + r[0] * (p[1] * q[2] - p[2] * q[1]);
  const whole = determinant(a, b, c);
  return [determinant(target, b, c) / whole, determinant(a, target, c) / whole, determinant(a, b, target) / whole];
}

function fixed(buffer: Buffer, value: number, offset: number): void {
  buffer.writeInt32BE(Math.round(value * 65_536), offset);
}

function xyz(vector: Vector): Buffer {
  const tag = Buffer.alloc(20);
  tag.write('XYZ ', 0, 'latin1');
  for (const [index, value] of vector.entries()) fixed(tag, value, 8 + index * 4);
  return tag;
}

/** IEC 61966-2-1 as a parametric curve of type 3. */
function srgbCurve(): Buffer {
  const tag = Buffer.alloc(32);
  tag.write('para', 0, 'latin1');
  tag.writeUInt16BE(3, 8);
  for (const [index, value] of [2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045].entries())
    fixed(tag, value, 12 + index * 4);
  return tag;
}

/** A text in one language, padded because every tag begins at a multiple of four bytes. */
function localized(text: string): Buffer {
  const tag = Buffer.alloc(28 + Math.ceil((text.length * 2) / 4) * 4);
  tag.write('mluc', 0, 'latin1');
  tag.writeUInt32BE(1, 8);
  tag.writeUInt32BE(12, 12);
  tag.write('enUS', 16, 'latin1');
  tag.writeUInt32BE(text.length * 2, 20);
  tag.writeUInt32BE(28, 24);
  Buffer.from(text, 'utf16le').swap16().copy(tag, 28);
  return tag;
}
