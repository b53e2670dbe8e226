import { createRequire } from 'node:module';

/** Decoded pixels: rows without gaps, 8 bits a sample. */
export interface RawPixels {
  data: Buffer;
  width: number;
  height: number;
  channels: 1 | 2 | 3 | 4;
}

/** An opened HEIC, with its size as displayed. `close` frees its memory. */
export interface OpenHeic {
  readonly width: number;
  readonly height: number;
  readonly hasAlpha: boolean;
  /** Decodes to RGB, or to RGBA if there is transparency, in the colours of the file's own profile. Throws if damaged. */
  pixels(): RawPixels;
  close(): void;
}

/** The part of libheif-js that is used here; the package has no types for it. */
interface LibHeif {
  heif_get_version(): string;
  HeifDecoder: new () => { decode(file: Uint8Array): HeifImage[]; decoder: unknown };
  heif_js_decode_image2(
    handle: unknown,
    colorspace: unknown,
    chroma: unknown,
  ): Decoded | { code: unknown; message?: string } | null;
  heif_image_release(image: unknown): void;
  heif_context_free(context: unknown): void;
  heif_colorspace: { heif_colorspace_RGB: unknown };
  heif_chroma: { heif_chroma_interleaved_RGB: unknown; heif_chroma_interleaved_RGBA: unknown };
  heif_channel: { heif_channel_interleaved: unknown };
}

interface HeifImage {
  handle: unknown;
  get_width(): number;
  get_height(): number;
  is_primary(): boolean;
  has_alpha_channel(): boolean;
  free(): void;
}

interface Decoded {
  image: unknown;
  channels: Array<{ id: unknown; width: number; height: number; stride: number; data: Uint8Array }>;
}

let library: LibHeif | undefined;

/** libheif as WebAssembly. It has two megabytes, so it is loaded only when a HEIC arrives. */
function libheif(): LibHeif {
  library ??= createRequire(import.meta.url)('libheif-js/wasm-bundle') as LibHeif;
  return library;
}

/** Version of the bundled libheif. */
export function heicDecoderVersion(): string {
  return libheif().heif_get_version();
}

/** Opens an HEIC in memory and reads its tables without decoding pixels. Throws if libheif finds no image in it. */
export function openHeic(file: Uint8Array): OpenHeic {
  const lib = libheif();
  const decoder = new lib.HeifDecoder();
  const images = decoder.decode(file);
  const close = () => {
    for (const image of images) image.free();
    if (decoder.decoder) lib.heif_context_free(decoder.decoder);
    decoder.decoder = null;
  };
  const picture = images.find((image) => image.is_primary()) ?? images[0];
  if (!picture) {
    close();
    throw new Error('libheif finds no image in it');
  }
  const hasAlpha = picture.has_alpha_channel();
  return {
    width: picture.get_width(),
    height: picture.get_height(),
    hasAlpha,
    pixels: () => decodePixels(lib, picture, hasAlpha),
    close,
  };
}

function decodePixels(lib: LibHeif, picture: HeifImage, hasAlpha: boolean): RawPixels {
  const channels = hasAlpha ? 4 : 3;
  const chroma = hasAlpha ? lib.heif_chroma.heif_chroma_interleaved_RGBA : lib.heif_chroma.heif_chroma_interleaved_RGB;
  const decoded = lib.heif_js_decode_image2(picture.handle, lib.heif_colorspace.heif_colorspace_RGB, chroma);
  if (!decoded || !('channels' in decoded)) throw new Error(`libheif: ${decoded?.message ?? 'decoding failed'}`);
  try {
    const plane = decoded.channels.find(({ id }) => id === lib.heif_channel.heif_channel_interleaved);
    if (!plane) throw new Error('libheif returned no pixels');
    const { width, height, stride, data } = plane;
    const rowBytes = width * channels;
    const packed = Buffer.allocUnsafe(rowBytes * height);
    for (let row = 0; row < height; row++) {
      packed.set(data.subarray(row * stride, row * stride + rowBytes), row * rowBytes);
    }
    return { data: packed, width, height, channels };
  } finally {
    lib.heif_image_release(decoded.image);
  }
}
