import type { ImageFormatId } from '../formats.ts';
import { decodeText, rootElement } from './text.ts';

/** An accepted format by its first bytes, or what the bytes look like in words that fit "This looks like …". */
export type Sniffed = { format: ImageFormatId | 'heif' } | { looksLike: string };

/** Bytes that `sniff` wants to see: enough for an SVG behind a long comment. */
export const sniffBytes = 64 * 1024;

interface Signature {
  offset: number;
  bytes: string;
}

const at = (offset: number, bytes: string): Signature => ({ offset, bytes });

/** Accepted formats. All signatures of a row must be there; written as Latin-1. */
const accepted: ReadonlyArray<readonly [ImageFormatId | 'heif', ...Signature[]]> = [
  ['jpeg', at(0, '\xff\xd8\xff')],
  ['png', at(0, '\x89PNG\r\n\x1a\n')],
  ['gif', at(0, 'GIF87a')],
  ['gif', at(0, 'GIF89a')],
  ['webp', at(0, 'RIFF'), at(8, 'WEBP')],
  ['tiff', at(0, 'II*\0')],
  ['tiff', at(0, 'MM\0*')],
  ['tiff', at(0, 'II+\0')],
  ['tiff', at(0, 'MM\0+')],
];

/** What people upload by mistake, so that the refusal can name it. First match wins. */
const others: ReadonlyArray<readonly [string, ...Signature[]]> = [
  ['a Canon raw file', at(0, 'II*\0'), at(8, 'CR')],
  ['a PDF document', at(0, '%PDF-')],
  ['an Adobe Illustrator or PostScript file', at(0, '%!PS')],
  ['a Photoshop file', at(0, '8BPS')],
  ['a ZIP archive (or an Office document, which is one)', at(0, 'PK\x03\x04')],
  ['an empty ZIP archive', at(0, 'PK\x05\x06')],
  ['a gzip-compressed file (.svgz and .tar.gz are such)', at(0, '\x1f\x8b')],
  ['a RAR archive', at(0, 'Rar!\x1a\x07')],
  ['a 7-Zip archive', at(0, '7z\xbc\xaf\x27\x1c')],
  ['a JPEG XL picture', at(0, '\xff\x0a')],
  ['a JPEG XL picture', at(4, 'JXL \r\n\x87\n')],
  ['a JPEG 2000 picture', at(4, 'jP  \r\n\x87\n')],
  ['a JPEG 2000 picture', at(0, '\xff\x4f\xff\x51')],
  ['a JPEG XR picture', at(0, 'II\xbc\x01')],
  ['an OpenEXR picture', at(0, '\x76\x2f\x31\x01')],
  ['a Radiance HDR picture', at(0, '#?RADIANCE')],
  ['a DirectDraw texture', at(0, 'DDS ')],
  ['a GIMP file', at(0, 'gimp xcf')],
  ['a Windows icon', at(0, '\0\0\x01\0')],
  ['a BMP picture', at(0, 'BM')],
  ['a FITS picture', at(0, 'SIMPLE  =')],
  ['an old Office document', at(0, '\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1')],
  ['a Matroska or WebM video', at(0, '\x1a\x45\xdf\xa3')],
  ['an AVI video', at(0, 'RIFF'), at(8, 'AVI ')],
  ['a WAV sound', at(0, 'RIFF'), at(8, 'WAVE')],
  ['an Ogg file', at(0, 'OggS')],
  ['a FLAC sound', at(0, 'fLaC')],
  ['an MP3 sound', at(0, 'ID3')],
  ['a Flash video', at(0, 'FLV\x01')],
  ['a QuickTime video', at(4, 'moov')],
  ['a QuickTime video', at(4, 'mdat')],
  ['a program', at(0, '\x7fELF')],
  ['a Windows program', at(0, 'MZ')],
  ['an SQLite database', at(0, 'SQLite format 3\0')],
  ['an HLS playlist', at(0, '#EXTM3U')],
];

/** Brands of ISO base media files that hold pictures (ISO/IEC 23008-12, AVIF); all others are video, audio or unknown. */
const pictureBrands: ReadonlySet<string> = new Set([
  'heic',
  'heix',
  'heim',
  'heis',
  'hevc',
  'hevx',
  'mif1',
  'mif2',
  'msf1',
  'avif',
  'avis',
]);

/** Says what the first bytes of a file are. The file's name and Content-Type have no say. */
export function sniff(head: Buffer): Sniffed {
  const text = (offset: number, length: number) => head.toString('latin1', offset, offset + length);
  const matches = (signatures: readonly Signature[]) =>
    signatures.every(({ offset, bytes }) => text(offset, bytes.length) === bytes);

  if (text(4, 4) === 'ftyp') {
    const end = Math.min(head.readUInt32BE(0), head.length, 1_024);
    const brands = [text(8, 4)];
    for (let offset = 16; offset + 4 <= end; offset += 4) brands.push(text(offset, 4));
    if (brands.some((brand) => pictureBrands.has(brand))) return { format: 'heif' };
    return { looksLike: brands[0] === 'crx ' ? 'a Canon raw file' : 'an MP4 or QuickTime video or sound' };
  }
  const other = others.find(([, ...signatures]) => matches(signatures));
  if (other) return { looksLike: other[0] };
  const own = accepted.find(([, ...signatures]) => matches(signatures));
  if (own) return { format: own[0] };
  return sniffText(head);
}

function sniffText(head: Buffer): Sniffed {
  const text = decodeText(head);
  if (text === null) return { looksLike: 'data of an unknown kind' };
  const root = rootElement(text);
  if (root === 'svg') return { format: 'svg' };
  if (root === 'html' || /^\s*<!doctype\s+html/i.test(text)) return { looksLike: 'an HTML page' };
  if (root === 'MPD') return { looksLike: 'a DASH manifest' };
  if (root !== null) return { looksLike: `an XML document (<${root.slice(0, 40)}>)` };
  if (/^\s*[[{]/.test(text)) return { looksLike: 'JSON or similar text' };
  return { looksLike: 'plain text' };
}
