import type { Event, MediaStatus } from '@mds/contract';
import type { MediaFailureRecord } from './media-repository.ts';

/** What is kept of what happens; the rest is told to who listens and forgotten. */
export type KeptEventType = Exclude<Event['type'], 'media.progress'>;

/** An event before it has a place in the order. */
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
  /** Of a media object, of a path with the SHA-256 of what it stood for, or where both are null of everything. */
  | { type: 'cache.purged'; data: { media_id: string | null; path: string | null; objects?: readonly string[] } };

/** An event in its place. `seq` only grows, whichever process writes. */
export interface EventRecord {
  seq: number;
  /** Null: concerns every project. */
  projectId: string | null;
  type: KeptEventType;
  data: Record<string, unknown>;
  createdAtMs: number;
}

/** Events kept; older ones go. */
export const KEPT_EVENTS = 10_000;

/** What happened, in one order for all processes. What happens to media is written with the change itself. */
export interface EventRepository {
  /** Writes an event that no other repository writes. @returns its `seq` */
  append(event: NewEvent & { projectId: string | null }): Promise<number>;
  /** Events after `seq`, oldest first, at most `limit`. `projectId`: that project's and everybody's; null: all. */
  after(seq: number, options: { projectId: string | null; limit: number }): Promise<EventRecord[]>;
  /** The latest event's `seq`; 0 where nothing has happened. */
  latest(): Promise<number>;
  /** From where on every event is kept, and the latest purge of everything, however long ago; null: there was none. */
  horizon(): Promise<{ completeAfter: number; purgedEverything: number | null }>;
  /**
   * Calls back soon after this process has written events, and perhaps once for several. After those of other processes only where the
   * database tells of them: whoever must not miss any looks from time to time.
   * @returns ends it
   */
  onAppended(listener: () => void): () => void;
}
