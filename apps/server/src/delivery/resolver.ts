import type { Representation } from './representation.ts';

/** What a path stands for: one representation, or several among which Accept chooses. */
export interface Resource {
  representations: readonly Representation[];
  negotiated: boolean;
  /** Whether a request has been answered with it; the first answer of a manifest is a miss. */
  used: boolean;
  /** How long it has been out of date, in seconds, where it is used because nobody can say what is true now (RFC 9211, 2.5). */
  staleS?: number;
  /**
   * How long ago it was known to be true, in seconds, where it is used without being so now (RFC 9111, 5.1). Never where the database
   * beside it has just said so.
   */
  ageS?: number;
}

/** Turns paths into what they stand for right now. */
export interface Resolver {
  /**
   * What is at a path. At once where it is known and nothing was written since.
   * @throws AppError `not_found`, `media_not_found`, `rendition_not_found`, `rendition_not_ready`
   */
  resolve(path: string): Resource | Promise<Resource>;
  /** Finds out whether what is known is still valid. False: that is known, so that `peek` gives whatever is. */
  refresh(): Promise<void> | false;
  /** What `resolve` would give at once, else null; begins nothing. */
  peek(path: string): Resource | null;
  /** Forgets one path. @returns what was known of it, however long ago */
  forget(path: string): readonly Representation[];
  /** Forgets a media object. @returns what was known of it */
  forgetMedia(mediaId: string): Representation[];
  /** Forgets everything. */
  forgetAll(): void;
  /** Resolves when paths could be resolved now. */
  probe(): Promise<void>;
}
