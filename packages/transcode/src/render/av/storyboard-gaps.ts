/** Consecutive tiles without a keyframe in their spans. */
export interface KeyframeGap {
  readonly first: number;
  readonly tiles: number;
  /** Time of the first tile's frame: a quarter into its span, so it is well inside and soon after the keyframe. */
  readonly atMs: number;
  /** Duration to decode: from the keyframe before to the frame of the last tile. */
  readonly decodedMs: number;
}

/** Resolution of the coarsest container (Matroska's). Two times may each be rounded by half of it. */
const timeStepMs = 1;

/**
 * Finds the tiles that have no frame of their own among keyframes at these rising times. Tiles before the first keyframe are not
 * a gap, because there is nothing to show.
 */
export function keyframeGaps(timesMs: readonly number[], tiles: number, apartMs: number): KeyframeGap[] {
  const gaps: KeyframeGap[] = [];
  let next = 0;
  let before: number | null = null;
  let first: number | null = null;
  for (let tile = 0; tile <= tiles; tile++) {
    const start = tile * apartMs - timeStepMs;
    let keyframe: number | null = null;
    while (next < timesMs.length && (timesMs[next] ?? 0) < start + apartMs) keyframe = timesMs[next++] ?? null;
    const own = tile === tiles || (keyframe !== null && keyframe >= start);
    if (!own && before !== null) first ??= tile;
    if (own && first !== null && before !== null) {
      const atMs = (first + 0.25) * apartMs;
      const count = tile - first;
      gaps.push({ first, tiles: count, atMs, decodedMs: atMs + (count - 1) * apartMs - before });
      first = null;
    }
    before = keyframe ?? before;
  }
  return gaps;
}
