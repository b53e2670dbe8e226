import type { Manifest, ManifestRendition, Media, MediaDetail, MediaRendition, Rendition } from '@mds/contract';
import { buildDeliveryPath, parseDeliveryPath, renditionPath } from '@mds/contract/delivery-path';
import { ConfigurationError } from './errors.ts';

/** A media object, or its id. */
export type MediaReference = string | Pick<Media, 'id'>;

/** Options of a rendition's address. */
export interface UrlOptions {
  /**
   * File name extension without its dot. Without one, the Accept field selects the format of a picture. Other renditions have a fixed
   * extension: `hls` m3u8, `mp4` mp4, `storyboard` vtt, `audio` m4a.
   */
  extension?: string | undefined;
  /** Eight hex digits: this revision, cached without limit. Needs `extension`. */
  revision?: string | undefined;
}

/** The fields of a preset that a srcset needs; see `client.renditions.list()`. */
export type SrcsetPreset = Pick<Rendition, 'name' | 'kind' | 'source_kinds' | 'extension' | 'width' | 'height'>;

/** Options of a srcset. */
export interface SrcsetOptions {
  /** File name extension without its dot; default `webp`. */
  extension?: string | undefined;
  /** Use the addresses of revisions, cached without limit. Only if the renditions are known; default false. */
  immutable?: boolean | undefined;
  /** The deployment's presets (`client.renditions.list()`), if they differ from the service's defaults. */
  presets?: readonly SrcsetPreset[] | undefined;
}

/** A media object for a srcset. The more is known about it, the more exact are the widths. */
export type SrcsetMedia = MediaReference | Media | MediaDetail | Manifest;

/** Extensions of the default presets that are no pictures. */
const OWN_EXTENSIONS: Readonly<Record<string, string>> = { hls: 'm3u8', mp4: 'mp4', storyboard: 'vtt', audio: 'm4a' };

/** The service's default image presets, each with a square bounding box. */
const DEFAULT_PRESETS: readonly SrcsetPreset[] = [
  preset('thumb', 'webp', 320),
  preset('small', 'webp', 640),
  preset('medium', 'webp', 1280),
  preset('medium', 'avif', 1280),
  preset('medium', 'jpg', 1280),
  preset('large', 'webp', 2048),
];

function preset(name: string, extension: string, edge: number): SrcsetPreset {
  return { name, kind: 'image', source_kinds: ['image'], extension, width: edge, height: edge };
}

/**
 * The address of a rendition. If it has several files: of the file that a player opens. Makes no request, so the rendition may not exist.
 * @param baseUrl without a trailing slash
 * @throws ConfigurationError if id, name, extension or revision cannot be part of a delivery path
 */
export function deliveryUrl(baseUrl: string, media: MediaReference, name: string, options: UrlOptions = {}): string {
  const id = idOf(media);
  const { extension = Object.hasOwn(OWN_EXTENSIONS, name) ? OWN_EXTENSIONS[name] : undefined, revision } = options;
  if (revision !== undefined && extension === undefined) {
    throw new ConfigurationError('a revision belongs to one format: give its extension too');
  }
  return (
    baseUrl +
    checkedPath(
      extension === undefined
        ? buildDeliveryPath({ kind: 'negotiated', id, name })
        : buildDeliveryPath(renditionPath({ id, name, extension, revision: revision ?? null })),
    )
  );
}

/**
 * The address of a media object's manifest.
 * @param baseUrl without a trailing slash
 * @throws ConfigurationError if the id is invalid
 */
export function manifestUrl(baseUrl: string, media: MediaReference): string {
  return baseUrl + checkedPath(buildDeliveryPath({ kind: 'manifest', id: idOf(media) }));
}

/**
 * The value of an `<img srcset>`: addresses with their widths, smallest first.
 *
 * - With renditions (a manifest, or a media object in detail): the existing pictures with their exact widths.
 * - With `width` and `height` (a media object of the list): computed as the service scales, into the preset's box, with the aspect
 *   ratio kept and never enlarged. If several presets give the same width, the first is used.
 * - With an id alone: the widths of the presets, which a smaller or an upright picture does not reach.
 *
 * Empty for video and audio, whose renditions are not alternative sizes.
 * @param baseUrl without a trailing slash
 */
export function srcset(baseUrl: string, media: SrcsetMedia, options: SrcsetOptions = {}): string {
  const extension = options.extension ?? 'webp';
  const known = renditionsOf(media);
  if (known) {
    if (typeof media === 'object' && 'kind' in media && media.kind !== 'image') return '';
    return join(
      known
        .filter((rendition) => rendition.extension === extension && rendition.content_type.startsWith('image/'))
        .map((rendition) => ({
          url: absoluteUrl(baseUrl, options.immutable ? rendition.immutable_url : rendition.url),
          width: rendition.width ?? 0,
        })),
    );
  }
  if (typeof media === 'object' && 'content_type' in media && !media.content_type.startsWith('image/')) return '';
  return join(
    (options.presets ?? DEFAULT_PRESETS)
      .filter((it) => it.extension === extension && it.kind === 'image' && it.source_kinds.includes('image'))
      .map((it) => ({ url: deliveryUrl(baseUrl, media, it.name, { extension }), width: renderedWidth(it, media) })),
  );
}

/** Makes an absolute address of one that may be a path. */
export function absoluteUrl(baseUrl: string, url: string): string {
  return url.startsWith('/') && !url.startsWith('//') ? baseUrl + url : new URL(url, `${baseUrl}/`).href;
}

function renditionsOf(media: SrcsetMedia): (ManifestRendition | MediaRendition)[] | null {
  if (typeof media === 'string' || !('renditions' in media)) return null;
  return [...media.renditions].filter((rendition) => !('state' in rendition) || rendition.state === 'ready');
}

function renderedWidth(preset: SrcsetPreset, media: SrcsetMedia): number {
  if (typeof media === 'string' || !('width' in media) || !media.width || !media.height) return preset.width ?? 0;
  const scale = Math.min(
    1,
    (preset.width ?? Number.POSITIVE_INFINITY) / media.width,
    (preset.height ?? Number.POSITIVE_INFINITY) / media.height,
  );
  return Math.max(1, Math.round(media.width * scale));
}

function join(candidates: { url: string; width: number }[]): string {
  const seen = new Set<number>();
  return candidates
    .toSorted((a, b) => a.width - b.width)
    .filter(({ width }) => width > 0 && !seen.has(width) && seen.add(width))
    .map(({ url, width }) => `${url} ${width}w`)
    .join(', ');
}

function idOf(media: MediaReference): string {
  return typeof media === 'string' ? media : media.id;
}

/** The grammar has no character that needs encoding, so a path that it cannot parse is invalid, `..` included. */
function checkedPath(path: string): string {
  if (parseDeliveryPath(path) === null) throw new ConfigurationError(`${JSON.stringify(path)} is not a delivery path`);
  return path;
}
