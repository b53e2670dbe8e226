import { type AvFormatId, avFormats } from './formats-av.ts';
import type { MediaKind } from './media-kind.ts';

/** One accepted source format. `id` is stable; the first extension and content type are the canonical ones. */
export interface Format {
  readonly id: string;
  readonly kind: MediaKind;
  readonly container: string;
  readonly extensions: readonly string[];
  readonly contentTypes: readonly string[];
  readonly codecs: {
    readonly image?: readonly string[];
    readonly video?: readonly string[];
    readonly audio?: readonly string[];
  };
}

/** Ids of the image formats. The sniffer returns them, and each needs a sample in `samples/`. */
export type ImageFormatId = 'jpeg' | 'png' | 'webp' | 'avif' | 'gif' | 'tiff' | 'heic' | 'svg';

/**
 * The accepted image formats. JPEG 2000 and JPEG XL are missing on purpose: sharp's libvips is built without OpenJPEG and
 * libjxl. A format that can never be proven would degrade the status of every deployment for ever.
 */
const imageFormats: Record<ImageFormatId, Omit<Format, 'id' | 'kind'>> = {
  jpeg: {
    container: 'jpeg',
    extensions: ['jpg', 'jpeg', 'jpe', 'jfif'],
    contentTypes: ['image/jpeg'],
    codecs: { image: ['jpeg'] },
  },
  png: { container: 'png', extensions: ['png'], contentTypes: ['image/png'], codecs: { image: ['png'] } },
  webp: { container: 'webp', extensions: ['webp'], contentTypes: ['image/webp'], codecs: { image: ['vp8', 'vp8l'] } },
  avif: { container: 'heif', extensions: ['avif'], contentTypes: ['image/avif'], codecs: { image: ['av1'] } },
  gif: { container: 'gif', extensions: ['gif'], contentTypes: ['image/gif'], codecs: { image: ['gif'] } },
  tiff: { container: 'tiff', extensions: ['tif', 'tiff'], contentTypes: ['image/tiff'], codecs: { image: ['tiff'] } },
  heic: {
    container: 'heif',
    extensions: ['heic', 'heif'],
    contentTypes: ['image/heic', 'image/heif'],
    codecs: { image: ['hevc'] },
  },
  svg: { container: 'svg', extensions: ['svg'], contentTypes: ['image/svg+xml'], codecs: { image: ['svg'] } },
};

/** The registry of accepted formats. `Engine.proveFormats` shows which of them this machine can really decode. */
export const formats: readonly Format[] = [
  ...Object.entries(imageFormats).map(([id, format]): Format => ({ id, kind: 'image', ...format })),
  ...Object.entries(avFormats).map(([id, { names: _, ...format }]): Format => ({ id, ...format })),
];

const byId = new Map(formats.map((format) => [format.id, format]));

/** The registered format with that id. An unregistered id is a programming error and throws a `RangeError`. */
export function formatById(id: string): Format {
  const format = byId.get(id);
  if (!format) throw new RangeError(`No format is registered as "${id}".`);
  return format;
}

/** The name of a format in messages. */
export function formatName(id: string): string {
  if (id in avFormats) return avFormats[id as AvFormatId].names;
  return id === 'webp' ? 'WebP' : id.toUpperCase();
}

/** The name of each format in the list of all formats. A format for several kinds of media has the same name in each. */
const commonNames = {
  ...{ jpeg: 'JPEG', png: 'PNG', webp: 'WebP', avif: 'AVIF', gif: 'GIF', tiff: 'TIFF', heic: 'HEIC', svg: 'SVG' },
  ...{ mp4: 'MP4', mov: 'MOV', webm: 'WebM', mkv: 'Matroska', mpegts: 'MPEG-TS', avi: 'AVI', ogv: 'Ogg (VP8)' },
  ...{ mp3: 'MP3', m4a: 'M4A', aac: 'AAC', wav: 'WAV', flac: 'FLAC', ogg: 'Ogg', opus: 'Opus' },
  ...{ weba: 'WebM', mka: 'Matroska' },
} as const satisfies Record<ImageFormatId | AvFormatId, string>;

/** The accepted formats as a phrase, for the messages of rejections. */
export const acceptedFormatsText = Object.entries({ image: 'images', video: 'videos', audio: 'audio' } as const)
  .map(([kind, words]) => {
    const ids = formats.filter((format) => format.kind === kind).map(({ id }) => id as keyof typeof commonNames);
    const names = ids.map((id) => commonNames[id]);
    return `${words} as ${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
  })
  .join('; ');
