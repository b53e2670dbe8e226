import {
  buildDeliveryPath,
  type MediaDetail,
  type MediaFailure,
  type MediaRendition,
  renditionPath,
} from '@mds/contract';
import type { Presented } from '../base/presented.ts';
import type { JobQueue, JobView } from '../db/job-queue.ts';
import type { MediaFailureRecord, MediaRecord, MediaRepository, RenditionRecord } from '../db/media-repository.ts';
import { presentMedia } from '../read-api/media.ts';

/** Parts for reading a media object in detail. */
export interface MediaDetailParts {
  media: Pick<MediaRepository, 'renditions'>;
  jobs: Pick<JobQueue, 'findJobViews'>;
  /** Base address that clients use, without a trailing slash. */
  publicUrl(): string;
}

/** The current {@link presentMediaDetail} of one media object. */
export async function readMediaDetail(
  { media, jobs, publicUrl }: MediaDetailParts,
  record: MediaRecord,
): Promise<Presented<MediaDetail>> {
  const renditions = await media.renditions(record.id);
  const [job = null] = await jobs.findJobViews([record.id]);
  return presentMediaDetail(record, renditions, job, publicUrl());
}

/**
 * A media object with all fields that its operator may see.
 * @param job its job; null if it has none
 * @param publicUrl base of the renditions' URLs, no trailing slash
 */
export function presentMediaDetail(
  media: MediaRecord,
  renditions: readonly RenditionRecord[],
  job: Pick<JobView, 'progress'> | null,
  publicUrl: string,
): Presented<MediaDetail> {
  return {
    ...presentMedia(media),
    filename: media.filename,
    sha256: media.sha256,
    kind: media.kind,
    duration: media.durationMs === null ? null : media.durationMs / 1000,
    codecs: media.codecs,
    thumbhash: media.thumbhash,
    warnings: media.warnings,
    error: media.failure === null ? null : presentFailure(media.failure),
    attempts: media.attempts,
    // The job is read after the media object: if it is gone by then, processing has just ended.
    progress: media.status !== 'processing' ? null : job === null ? 1 : (job.progress ?? 0),
    renditions: renditions
      // A rendition of an older preset is still delivered at its URL, but no longer belongs to the media object.
      .filter(({ current, state }) => current || state !== 'ready')
      .sort(byName)
      .map((rendition) => presentMediaRendition(rendition, publicUrl)),
  };
}

function presentMediaRendition(rendition: RenditionRecord, publicUrl: string): Presented<MediaRendition> {
  const { mediaId: id, name, extension, revision } = rendition;
  return {
    name,
    extension,
    content_type: rendition.contentType,
    revision,
    state: rendition.state,
    reason: rendition.reason,
    bytes: rendition.bytes,
    files: rendition.files,
    width: rendition.width,
    height: rendition.height,
    url: `${publicUrl}${buildDeliveryPath(renditionPath({ id, name, extension, revision: null }))}`,
    immutable_url: `${publicUrl}${buildDeliveryPath(renditionPath({ id, name, extension, revision }))}`,
  };
}

export function presentFailure({ code, message, retryable }: MediaFailureRecord): Presented<MediaFailure> {
  return { code, message, retryable };
}

function byName(a: RenditionRecord, b: RenditionRecord): number {
  const key = ({ name, extension, revision }: RenditionRecord) => `${name}.${extension}.${revision}`;
  return key(a) < key(b) ? -1 : 1;
}
