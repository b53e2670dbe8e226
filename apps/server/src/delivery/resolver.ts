import type { Representation } from './representation.ts';

/** The representations at a path: one, or several among which Accept chooses. */
export interface Resource {
  representations: readonly Representation[];
  negotiated: boolean;
  /** Whether a request has been answered with it. The first answer with a manifest is a miss. */
  used: boolean;
  /** How long it has been out of date, in seconds, if it is used during an outage (RFC 9211, 2.5). */
  staleS?: number;
  /**
   * How long ago it was last confirmed, in seconds, if it is used without being confirmed now (RFC 9111, 5.1). Absent if the database
   * beside it has just confirmed it.
   */
  ageS?: number;
}

/** Finds the current representations of paths. */
export interface Resolver {
  /**
   * The resource at a path. Returned at once if it is known and nothing has been written since.
   * @throws AppError `not_found`, `media_not_found`, `rendition_not_found`, `rendition_not_ready`
   */
  resolve(path: string): Resource | Promise<Resource>;
  /** Finds out whether the known paths are still valid. False: that is known already, so `peek` returns every valid one. */
  refresh(): Promise<void> | false;
  /** The result of `resolve` if it returns at once, else null. Begins nothing. */
  peek(path: string): Resource | null;
  /** Forgets one path. @returns its known representations, valid or not */
  forget(path: string): readonly Representation[];
  /** Forgets a media object. @returns its known representations */
  forgetMedia(mediaId: string): Representation[];
  /** Forgets everything. */
  forgetAll(): void;
  /** Resolves if paths can be resolved now. */
  probe(): Promise<void>;
}
