import { buildDeliveryPath, type Manifest, type ManifestRendition, renditionPath } from '@mds/contract';
import type { MediaRecord, RenditionRecord } from '../db/media-repository.ts';

/** Best first for a still that every program must be able to show. */
const STILL_ORDER = ['image/jpeg', 'image/png', 'image/webp', 'image/avif'];
/** Names of renditions that represent a media object, best first. */
const POSTER_ORDER = ['poster', 'medium'];

/**
 * Describes a media object and its renditions for pages.
 * @param renditions the deliverable ones of the current revision
 * @param baseUrl prefix of every path; empty: only paths
 */
export function buildManifest(
  mediaObject: MediaRecord,
  renditions: readonly RenditionRecord[],
  baseUrl: string,
): Manifest {
  const url = ({ name, extension }: RenditionRecord, revision: string | null) =>
    baseUrl + buildDeliveryPath(renditionPath({ id: mediaObject.id, name, extension, revision }));
  const sorted = [...renditions].sort(
    (a, b) => (a.width ?? 0) - (b.width ?? 0) || compare(a.name, b.name) || compare(a.extension, b.extension),
  );
  const poster = choosePoster(mediaObject, sorted);
  const storyboard = sorted.find(({ contentType }) => contentType === 'text/vtt');
  return {
    object: 'manifest',
    id: mediaObject.id,
    kind: mediaObject.kind,
    width: mediaObject.width,
    height: mediaObject.height,
    duration: mediaObject.durationMs === null ? null : mediaObject.durationMs / 1000,
    thumbhash: mediaObject.thumbhash,
    poster: poster ? url(poster, null) : null,
    storyboard: storyboard ? url(storyboard, null) : null,
    renditions: sorted.map(
      (rendition): ManifestRendition => ({
        name: rendition.name,
        extension: rendition.extension,
        content_type: rendition.contentType,
        bytes: rendition.bytes ?? 0,
        width: rendition.width,
        height: rendition.height,
        url: url(rendition, null),
        immutable_url: url(rendition, rendition.revision),
      }),
    ),
  };
}

/**
 * A rendition named for this purpose. For an image, otherwise the widest still, in the format that most programs show. Other pictures
 * of a video or an audio file (a storyboard, a waveform) do not represent it.
 */
function choosePoster({ kind }: MediaRecord, ascending: readonly RenditionRecord[]): RenditionRecord | null {
  const stills = ascending.filter(({ contentType }) => STILL_ORDER.includes(contentType));
  const preferred = POSTER_ORDER.find((wanted) => stills.some((still) => still.name === wanted));
  const name = preferred ?? (kind === 'image' ? stills.at(-1)?.name : undefined);
  const named = stills.filter((still) => still.name === name);
  named.sort((a, b) => STILL_ORDER.indexOf(a.contentType) - STILL_ORDER.indexOf(b.contentType));
  return named[0] ?? null;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
