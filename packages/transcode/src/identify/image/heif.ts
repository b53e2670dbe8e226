import type { Bytes } from '../bytes.ts';
import { type Box, boxesIn, cursorIn } from './boxes.ts';
import { CorruptHeaderError, type ImageHeader, OtherFormatError, UnsupportedCodingError } from './header.ts';

/** Colour of an HEIF image: its ICC profile, or its code points (ITU-T H.273) if it has none. */
export interface HeifColor {
  profile: Buffer | null;
  nclx: { primaries: number; transfer: number } | null;
}

const maxProfileBytes = 8 * 1024 * 1024;

/** Derived images: their pixels come from the items that they refer to (ISO/IEC 23008-12, 6.6). */
const derivedTypes: ReadonlySet<string> = new Set(['grid', 'iden', 'iovl']);

/** Reads the main image, size and rotation of an HEIC or AVIF. Nothing is decoded. */
export function readHeifHeader(bytes: Bytes): ImageHeader {
  return readHeif(bytes).header;
}

/** `readHeifHeader`, plus the colour that a decoder of raw pixels needs. */
export function readHeif(bytes: Bytes): { header: ImageHeader; color: HeifColor } {
  const top = boxesIn(bytes, 0, bytes.size);
  const brands = top[0]?.type === 'ftyp' ? bytes.take(top[0].start, top[0].end - top[0].start).toString('latin1') : '';
  const meta = top.find(({ type }) => type === 'meta');
  if (!meta) {
    if (top.some(({ type }) => type === 'moov'))
      throw new OtherFormatError('an image sequence without a still image, which is a video');
    throw new CorruptHeaderError('it has no table of images.');
  }
  const parts = boxesIn(bytes, meta.start + 4, meta.end);
  const part = (type: string): Box => {
    const box = parts.find((candidate) => candidate.type === type);
    if (!box) throw new CorruptHeaderError(`its table of images lacks "${type}".`);
    return box;
  };
  const primary = readPrimaryItem(bytes, part('pitm'));
  const types = readItemTypes(bytes, part('iinf'));
  const references = parts.filter(({ type }) => type === 'iref').flatMap((box) => readReferences(bytes, box));
  const properties = readProperties(bytes, part('iprp'));

  const own = properties(primary);
  const size = own.find(({ type }) => type === 'ispe');
  if (!size) throw new CorruptHeaderError('its image has no size.');
  const cursor = cursorIn(bytes, size, 4);
  const stored = { width: cursor.u32(), height: cursor.u32() };

  const codec = codecOf(primary, types, references);
  const coded = references.find(({ type, from }) => type === 'dimg' && from === primary)?.to[0] ?? primary;
  const color = readColor(bytes, [...own, ...properties(coded)]);
  const alpha = references.some(
    ({ type, from, to }) => type === 'auxl' && to.includes(primary) && isAlpha(bytes, properties(from)),
  );
  const warnings =
    /avis|msf1|hevc/.test(brands) && top.some(({ type }) => type === 'moov')
      ? ['This is an image sequence; only its still image is used.']
      : [];
  return {
    header: {
      format: codec === 'av1' ? 'avif' : 'heic',
      codec,
      ...cropped(bytes, own, stored),
      orientation: orientationOf(bytes, own),
      frames: 1,
      durationMs: null,
      hasAlpha: alpha,
      bitDepth: bitDepthOf(bytes, own) ?? bitDepthOf(bytes, properties(coded)) ?? 8,
      colorSpace: color.profile ? 'rgb' : (primariesNames.get(color.nclx?.primaries ?? 1) ?? 'srgb'),
      icc: color.profile !== null,
      warnings,
    },
    color,
  };
}

const primariesNames = new Map([
  [1, 'srgb'],
  [9, 'rec2020'],
  [12, 'p3'],
]);

function readPrimaryItem(bytes: Bytes, box: Box): number {
  const cursor = cursorIn(bytes, box);
  const version = cursor.u32() >>> 24;
  return cursor.id(version > 0);
}

function readItemTypes(bytes: Bytes, box: Box): Map<number, string> {
  const head = cursorIn(bytes, box);
  const version = head.u32() >>> 24;
  const skip = 4 + (version === 0 ? 2 : 4);
  const types = new Map<number, string>();
  for (const entry of boxesIn(bytes, box.start + skip, box.end)) {
    const cursor = cursorIn(bytes, entry);
    const entryVersion = cursor.u32() >>> 24;
    if (entryVersion < 2) continue;
    const id = cursor.id(entryVersion > 2);
    cursor.u16();
    types.set(id, cursor.text(4));
  }
  return types;
}

interface Reference {
  type: string;
  from: number;
  to: number[];
}

function readReferences(bytes: Bytes, box: Box): Reference[] {
  const wide = cursorIn(bytes, box).u32() >>> 24 > 0;
  return boxesIn(bytes, box.start + 4, box.end).map((entry) => {
    const cursor = cursorIn(bytes, entry);
    const from = cursor.id(wide);
    const count = cursor.u16();
    const to = Array.from({ length: count }, () => cursor.id(wide));
    return { type: entry.type, from, to };
  });
}

/** The property boxes of an item, in the order of their association. */
function readProperties(bytes: Bytes, box: Box): (item: number) => Box[] {
  const parts = boxesIn(bytes, box.start, box.end);
  const container = parts.find(({ type }) => type === 'ipco');
  if (!container) throw new CorruptHeaderError('its table of images lacks "ipco".');
  const all = boxesIn(bytes, container.start, container.end);
  const byItem = new Map<number, Box[]>();
  for (const association of parts.filter(({ type }) => type === 'ipma')) {
    const cursor = cursorIn(bytes, association);
    const versionAndFlags = cursor.u32();
    const wideIndex = (versionAndFlags & 1) === 1;
    const entries = cursor.u32();
    for (let entry = 0; entry < entries && cursor.left > 0; entry++) {
      const item = cursor.id(versionAndFlags >>> 24 > 0);
      const count = cursor.u8();
      const found: Box[] = [];
      for (let index = 0; index < count; index++) {
        // The top bit means "essential"; indices count from 1, and 0 means none.
        const property = all[(wideIndex ? cursor.u16() & 0x7fff : cursor.u8() & 0x7f) - 1];
        if (property) found.push(property);
      }
      byItem.set(item, found);
    }
  }
  return (item) => byItem.get(item) ?? [];
}

function codecOf(primary: number, types: Map<number, string>, references: Reference[]): 'hevc' | 'av1' {
  let item = primary;
  for (let hops = 0; hops < 4 && derivedTypes.has(types.get(item) ?? ''); hops++) {
    item = references.find(({ type, from }) => type === 'dimg' && from === item)?.to[0] ?? item;
  }
  const type = types.get(item);
  if (type === 'hvc1' || type === 'hev1') return 'hevc';
  if (type === 'av01') return 'av1';
  throw new UnsupportedCodingError(
    `The image in this HEIF file is coded as "${type ?? 'unknown'}"; HEVC and AV1 are accepted. Export it as HEIC, AVIF or JPEG.`,
  );
}

/** Clean aperture (ISO/IEC 14496-12, 12.1.4): a crop, given as fractions. */
function cropped(bytes: Bytes, properties: Box[], stored: { width: number; height: number }) {
  const clap = properties.find(({ type }) => type === 'clap');
  if (!clap) return stored;
  const cursor = cursorIn(bytes, clap);
  const fraction = () => cursor.u32() / Math.max(1, cursor.u32());
  const [width, height] = [Math.round(fraction()), Math.round(fraction())];
  const fits = width > 0 && height > 0 && width <= stored.width && height <= stored.height;
  return fits ? { width, height } : stored;
}

/** EXIF orientation that is equivalent to `irot` (turns of 90 degrees anticlockwise) and `imir`. HEIF ignores EXIF's own. */
function orientationOf(bytes: Bytes, properties: Box[]): number {
  let turns = 0;
  let flipped = false;
  for (const box of properties) {
    if (box.type === 'irot') {
      const angle = bytes.u8(box.start) & 3;
      // Turning a mirrored image one way equals mirroring an image that is turned the other way.
      turns = (turns + (flipped ? 4 - angle : angle)) % 4;
    } else if (box.type === 'imir') {
      // Axis 1 swaps left and right. Axis 0 swaps top and bottom, which equals axis 1 and half a turn.
      if ((bytes.u8(box.start) & 1) === 0) turns = (turns + 2) % 4;
      flipped = !flipped;
    }
  }
  return (flipped ? [2, 7, 4, 5] : [1, 8, 3, 6])[turns] ?? 1;
}

function bitDepthOf(bytes: Bytes, properties: Box[]): number | null {
  const pixi = properties.find(({ type }) => type === 'pixi');
  // A depth of 0 bits is impossible, so it counts as unknown.
  return pixi && pixi.end - pixi.start > 5 ? bytes.u8(pixi.start + 5) || null : null;
}

function readColor(bytes: Bytes, properties: Box[]): HeifColor {
  const color: HeifColor = { profile: null, nclx: null };
  for (const { type, start, end } of properties) {
    if (type !== 'colr' || end - start < 8) continue;
    const kind = bytes.take(start, 4).toString('latin1');
    if (kind === 'nclx') {
      color.nclx ??= { primaries: bytes.u16be(start + 4), transfer: bytes.u16be(start + 6) };
    } else if ((kind === 'prof' || kind === 'rICC') && end - start - 4 <= maxProfileBytes) {
      color.profile ??= Buffer.from(bytes.take(start + 4, end - start - 4));
    }
  }
  return color;
}

function isAlpha(bytes: Bytes, properties: Box[]): boolean {
  const kind = properties.find(({ type }) => type === 'auxC');
  if (!kind) return false;
  const urn = bytes.take(kind.start + 4, Math.min(200, Math.max(0, kind.end - kind.start - 4))).toString('latin1');
  return urn.startsWith('urn:mpeg:mpegB:cicp:systems:auxiliary:alpha') || urn.startsWith('urn:mpeg:hevc:2015:auxid:1');
}
