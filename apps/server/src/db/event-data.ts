import type { Event, MediaStatus } from '@mds/contract';
import type { MediaFailureRecord, MediaRecord, NewRendition } from './media-repository.ts';

/** Events that are stored. Progress is only sent to listeners. */
export type KeptEventType = Exclude<Event['type'], 'media.progress'>;

/** An event before it has its `seq`. */
export type NewEvent =
  | {
      type: Exclude<KeptEventType, 'rendition.ready' | 'rendition.failed' | 'region.status_changed' | 'cache.purged'>;
      data: { id: string; status: MediaStatus; error: MediaFailureRecord | null };
    }
  | { type: 'rendition.ready'; data: { id: string; name: string; extension: string; revision: string } }
  | {
      type: 'rendition.failed';
      data: { id: string; name: string; extension: string; revision: string; reason: string | null };
    }
  | { type: 'region.status_changed'; data: { code: string; status: string } }
  /** Purges a media object, or a path with the SHA-256 of its objects, or, if both are null, everything. */
  | { type: 'cache.purged'; data: { media_id: string | null; path: string | null; objects?: readonly string[] } };

/** An event and its project; null: it concerns every project. */
export type OwnedEvent = NewEvent & { projectId: string | null };

/** An event about the state of a media object. */
export function mediaEvent(
  type: 'media.created' | 'media.processing' | 'media.ready' | 'media.failed' | 'media.deleted',
  { id, projectId, status, failure }: Pick<MediaRecord, 'id' | 'projectId' | 'status' | 'failure'>,
): OwnedEvent {
  return { projectId, type, data: { id, status, error: failure } };
}

/** A rendition that is ready, or has failed. @param of.projectId null if the media object is gone */
export function renditionEvent(
  type: 'rendition.ready' | 'rendition.failed',
  of: { projectId: string | null; mediaId: string },
  { name, extension, revision, reason }: Pick<NewRendition, 'name' | 'extension' | 'revision' | 'reason'>,
): OwnedEvent {
  const { projectId, mediaId: id } = of;
  const data = { id, name, extension, revision };
  return type === 'rendition.ready' ? { projectId, type, data } : { projectId, type, data: { ...data, reason } };
}

/** Whether an event purges everything. Its `seq` is kept longer than the event. */
export function purgesEverything({ type, data }: OwnedEvent): boolean {
  return type === 'cache.purged' && data.media_id === null && data.path === null;
}
