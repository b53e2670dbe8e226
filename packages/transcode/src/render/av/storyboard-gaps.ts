/** Tiles that follow each other in whose stretches there is no keyframe. */
export interface KeyframeGap {
  readonly first: number;
  readonly tiles: number;
  /** When the frame of the first is shown: a quarter into its stretch, which is well inside it and soon after the keyframe. */
  readonly atMs: number;
  /** From the keyframe before to the frame of the last tile: what has to be decoded. */
  readonly decodedMs: number;
}

/** Of the coarsest container (Matroska's): two times may each be rounded by half of it. */
const timeStepMs = 1;

/**
 * Where keyframes, at these rising times, leave tiles without a picture of their own. What comes before the first of them is no
 * gap: there is nothing to show.
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
