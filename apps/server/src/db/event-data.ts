import type { NewEvent } from './event-repository.ts';
import type { MediaRecord, NewRendition } from './media-repository.ts';

/** An event and whose it is; null: it concerns every project. */
export type OwnedEvent = NewEvent & { projectId: string | null };

/** What became of a media object. */
export function mediaEvent(
  type: 'media.created' | 'media.processing' | 'media.ready' | 'media.failed' | 'media.deleted',
  { id, projectId, status, failure }: Pick<MediaRecord, 'id' | 'projectId' | 'status' | 'failure'>,
): OwnedEvent {
  return { projectId, type, data: { id, status, error: failure } };
}

/** A rendition that is ready, or has failed. @param of.projectId null where the media object is gone */
export function renditionEvent(
  type: 'rendition.ready' | 'rendition.failed',
  of: { projectId: string | null; mediaId: string },
  { name, extension, revision, reason }: Pick<NewRendition, 'name' | 'extension' | 'revision' | 'reason'>,
): OwnedEvent {
  const { projectId, mediaId: id } = of;
  const data = { id, name, extension, revision };
  return type === 'rendition.ready' ? { projectId, type, data } : { projectId, type, data: { ...data, reason } };
}

/** Whether it is the purge of everything, whose `seq` is kept longer than the event. */
export function purgesEverything({ type, data }: OwnedEvent): boolean {
  return type === 'cache.purged' && data.media_id === null && data.path === null;
}
