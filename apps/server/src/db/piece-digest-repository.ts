/**
 * SHA-256 of the pieces of large objects, by the SHA-256 of the whole: of `PIECE_BYTES` each, the last one shorter. They go when the
 * last rendition of that content does.
 */
export interface PieceDigestRepository {
  /** Keeps what is given: 32 bytes a piece. Written before the rendition that needs it; writing it again changes nothing. */
  put(sha256: string, digests: Buffer): Promise<void>;
  find(sha256: string): Promise<Buffer | null>;
  /**
   * Forgets those of content that was never published, or is no more: left by workers that did not come to an end. None while anybody
   * holds a lease, who may be about to publish. @returns how many
   */
  dropUnneeded(): Promise<number>;
}
