import type { ImageFormatId } from '../formats.ts';
import type { AvContainer } from '../formats-av.ts';
import { isTransportStream, sniffAfterId3, sniffFrames } from './av/sniff-mpeg.ts';
import type { Bytes } from './bytes.ts';
import { decodeText, rootElement } from './text.ts';

/** The accepted format or container, or a description of the bytes that completes "This looks like …". */
export type Sniffed = { format: ImageFormatId | 'heif' } | { container: AvContainer } | { looksLike: string };

/** Enough for an SVG after a long comment. */
const headBytes = 64 * 1024;

interface Signature {
  offset: number;
  bytes: string;
}

const at = (offset: number, bytes: string): Signature => ({ offset, bytes });

/** Accepted formats. All signatures of a row must match; they are written as Latin-1. */
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

const playlist = 'an HLS playlist';

/** Common mistakes, so that the refusal can name them. The first match wins. */
const others: ReadonlyArray<readonly [string, ...Signature[]]> = [
  ['a Canon raw file', at(0, 'II*\0'), at(8, 'CR')],
  ['a PDF document', at(0, '%PDF-')],
  ['an Adobe Illustrator or PostScript file', at(0, '%!PS')],
  ['a Photoshop file', at(0, '8BPS')],
  ['a ZIP archive (or an Office document, which is one)', at(0, 'PK\x03\x04')],
  ['an empty ZIP archive', at(0, 'PK\x05\x06')],
  ['a gzip-compressed file (such as .svgz or .tar.gz)', at(0, '\x1f\x8b')],
  ['a RAR archive', at(0, 'Rar!\x1a\x07')],
  ['a 7-Zip archive', at(0, '7z\xbc\xaf\x27\x1c')],
  ['a JPEG XL image', at(0, '\xff\x0a')],
  ['a JPEG XL image', at(4, 'JXL \r\n\x87\n')],
  ['a JPEG 2000 image', at(4, 'jP  \r\n\x87\n')],
  ['a JPEG 2000 image', at(0, '\xff\x4f\xff\x51')],
  ['a JPEG XR image', at(0, 'II\xbc\x01')],
  ['an OpenEXR image', at(0, '\x76\x2f\x31\x01')],
  ['a Radiance HDR image', at(0, '#?RADIANCE')],
  ['a DirectDraw texture', at(0, 'DDS ')],
  ['a GIMP file', at(0, 'gimp xcf')],
  ['a Windows icon', at(0, '\0\0\x01\0')],
  ['a BMP image', at(0, 'BM')],
  ['a FITS image', at(0, 'SIMPLE  =')],
  ['an old Office document', at(0, '\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1')],
  ['a Flash video', at(0, 'FLV\x01')],
  ['a Windows Media file', at(0, '\x30\x26\xb2\x75\x8e\x66\xcf\x11')],
  ['an MPEG program stream (as on DVDs)', at(0, '\0\0\x01\xba')],
  ['a bare MPEG video stream', at(0, '\0\0\x01\xb3')],
  ['a RealMedia file', at(0, '.RMF')],
  ['an AIFF audio file', at(0, 'FORM'), at(8, 'AIF')],
  ['a Core Audio file', at(0, 'caff')],
  ['an AMR audio file', at(0, '#!AMR')],
  ['a MIDI file', at(0, 'MThd')],
  ['an IVF file', at(0, 'DKIF')],
  ['an ffmpeg script that names other files', at(0, 'ffconcat')],
  ['a program', at(0, '\x7fELF')],
  ['a Windows program', at(0, 'MZ')],
  ['an SQLite database', at(0, 'SQLite format 3\0')],
  [playlist, at(0, '#EXTM3U')],
];

/** Containers of video and audio that have a simple signature. */
const containers: ReadonlyArray<readonly [AvContainer, ...Signature[]]> = [
  ['avi', at(0, 'RIFF'), at(8, 'AVI ')],
  ['wav', at(0, 'RIFF'), at(8, 'WAVE')],
  ['wav', at(0, 'RF64'), at(8, 'WAVE')],
  ['ogg', at(0, 'OggS')],
  ['flac', at(0, 'fLaC')],
  // QuickTime from before brands existed.
  ['mov', at(4, 'moov')],
  ['mov', at(4, 'mdat')],
  ['mov', at(4, 'wide')],
  ['mov', at(4, 'free')],
  ['mov', at(4, 'skip')],
  ['mov', at(4, 'pnot')],
];

/** Brands of ISO base media files with images (ISO/IEC 23008-12, AVIF). All others are video, audio or unknown. */
const imageBrands: ReadonlySet<string> = new Set([
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

/** Recognizes a format by its bytes, not by its name or Content-Type. */
export function sniff(bytes: Bytes): Sniffed {
  const head = bytes.peek(0, headBytes);
  const text = (offset: number, length: number) => head.toString('latin1', offset, offset + length);
  const matches = (signatures: readonly Signature[]) =>
    signatures.every(({ offset, bytes }) => text(offset, bytes.length) === bytes);

  if (text(4, 4) === 'ftyp') return sniffBrands(head);
  if (text(0, 4) === '\x1a\x45\xdf\xa3') return sniffEbml(head);
  if (text(0, 3) === 'ID3') {
    const container = sniffAfterId3(bytes);
    return container === null ? { looksLike: 'an ID3 tag without audio after it' } : { container };
  }
  const other = others.find(([, ...signatures]) => matches(signatures));
  if (other) return { looksLike: other[0] };
  const own = accepted.find(([, ...signatures]) => matches(signatures));
  if (own) return { format: own[0] };
  const signed = containers.find(([, ...signatures]) => matches(signatures));
  if (signed) return { container: signed[0] };
  if (decodeText(head) === null) {
    if (isTransportStream(bytes)) return { container: 'mpegts' };
    const framed = sniffFrames(bytes);
    if (framed !== null) return { container: framed };
  }
  return sniffText(head);
}

/** ISO/IEC 14496-12, 4.3: the `ftyp` box lists what a file conforms to, the main brand first. */
function sniffBrands(head: Buffer): Sniffed {
  const end = Math.min(head.readUInt32BE(0), head.length, 1_024);
  const brands = [head.toString('latin1', 8, 12)];
  for (let offset = 16; offset + 4 <= end; offset += 4) brands.push(head.toString('latin1', offset, offset + 4));
  if (brands.some((brand) => imageBrands.has(brand))) return { format: 'heif' };
  if (brands[0] === 'crx ') return { looksLike: 'a Canon raw file' };
  if (['jp2 ', 'jpx ', 'jpm '].includes(brands[0] ?? '')) return { looksLike: 'a JPEG 2000 image' };
  return { container: brands[0] === 'qt  ' ? 'mov' : 'mp4' };
}

/** RFC 8794, 11.2.4: the DocType in the header, element 0x4282, names the kind of EBML file. */
function sniffEbml(head: Buffer): Sniffed {
  const at = head.subarray(0, 4_096).indexOf('\x42\x82', 4, 'latin1');
  const type = at < 0 ? '' : head.toString('latin1', at + 3, at + 3 + ((head[at + 2] ?? 0) & 0x7f));
  // Names may be padded with zeros.
  const name = type.replace(/\0+$/, '');
  if (name === 'webm' || name === 'matroska') return { container: name };
  return { looksLike: 'an EBML file that is neither Matroska nor WebM' };
}

function sniffText(head: Buffer): Sniffed {
  const text = decodeText(head);
  if (text === null) return { looksLike: 'data of an unknown kind' };
  const root = rootElement(text);
  if (root === 'svg') return { format: 'svg' };
  if (root === 'html' || /^\s*<!doctype\s+html/i.test(text)) return { looksLike: 'an HTML page' };
  if (root === 'MPD') return { looksLike: 'a DASH manifest' };
  if (root !== null) return { looksLike: `an XML document (<${root.slice(0, 40)}>)` };
  if (/^\s*#EXTM3U/.test(text)) return { looksLike: playlist };
  if (/^\s*[[{]/.test(text)) return { looksLike: 'JSON or similar text' };
  return { looksLike: 'plain text' };
}
