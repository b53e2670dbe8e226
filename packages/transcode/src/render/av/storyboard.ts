import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Decoded, parseFrameTimes, parseTimes, seriesArgs, tilesArgs } from '../../ffmpeg/argv/frames.ts';
import { ProgramError } from '../../ffmpeg/run.ts';
import type { PlannedRendition } from '../../plan.ts';
import { presetRevision, spriteOf } from '../../presets/presets.ts';
import type { StoryboardIndexPreset, StoryboardPreset, StoryboardSpritePreset } from '../../presets/video.ts';
import { fromRaw } from '../decode.ts';
import { readyFile, writeVerifiedImage, writeVerifiedText } from '../output-file.ts';
import { undecodableError, videoTrack } from './poster-frame.ts';
import type { Step, StepContext } from './step.ts';
import { type KeyframeGap, keyframeGaps } from './storyboard-gaps.ts';
import { type StoryboardLayout, storyboardIndex, storyboardLayout } from './storyboard-layout.ts';

type Planned<P extends StoryboardPreset> = PlannedRendition & { readonly preset: P };
export type PlannedStoryboard = Planned<StoryboardPreset>;

export function isStoryboard(planned: PlannedRendition): planned is PlannedStoryboard {
  return planned.preset.type === 'storyboard';
}

function isSprite(planned: PlannedStoryboard): planned is Planned<StoryboardSpritePreset> {
  return planned.preset.container === 'jpeg';
}

function isIndex(planned: PlannedStoryboard): planned is Planned<StoryboardIndexPreset> {
  return planned.preset.container === 'vtt';
}

/**
 * Steps for sprites of frames and for their indexes, which map times to tiles. An index is made with its sprite, or alone if the
 * sprite exists already (`beside`). It fails with its sprite, because players would request a missing image. `weight` is that of
 * a sprite.
 */
export function storyboardSteps(
  wanted: readonly PlannedStoryboard[],
  beside: readonly PlannedStoryboard[],
  weight: number,
): Step[] {
  const sprites = wanted.filter(isSprite);
  const indexes = wanted.filter(isIndex);
  const belongs = (index: Planned<StoryboardIndexPreset>, sprite: PlannedStoryboard) =>
    sprite.name === index.name && sprite.revision === presetRevision(spriteOf(index.preset)) && isSprite(sprite);
  const alone = indexes.filter((index) => !sprites.some((sprite) => belongs(index, sprite)));
  return [
    ...sprites.map((sprite) => {
      const its = indexes.filter((index) => belongs(index, sprite));
      return step([sprite, ...its], weight, async (context) => {
        await writeSprite(context, sprite, storyboardLayout(sprite, context.source.durationMs));
        for (const index of its) await writeIndex(context, index, storyboardLayout(index, context.source.durationMs));
      });
    }),
    ...alone.map((index) =>
      step([index], 0.01, async (context) => {
        const isThere = beside.some((sprite) => belongs(index, sprite));
        if (!isThere) throw new Error('its sprite is not made.');
        await writeIndex(context, index, storyboardLayout(index, context.source.durationMs));
      }),
    ),
  ];
}

/** A step with the name of its first rendition. */
function step(
  renditions: readonly [PlannedStoryboard, ...PlannedStoryboard[]],
  weight: number,
  run: Step['run'],
): Step {
  const [{ name, extension }] = renditions;
  return { name: `${name}.${extension}`, renditions, weight, run };
}

async function writeIndex(
  context: StepContext,
  planned: Planned<StoryboardIndexPreset>,
  layout: StoryboardLayout,
): Promise<void> {
  const sprite = spriteOf(planned.preset);
  const text = storyboardIndex(layout, `${sprite.name}.${presetRevision(sprite)}.${sprite.extension}`);
  const place = join(context.outDir, `${planned.name}.${planned.extension}`);
  const facts = await writeVerifiedText(place, text);
  context.finish(planned, readyFile(planned, place, facts));
}

async function writeSprite(
  context: StepContext,
  planned: Planned<StoryboardSpritePreset>,
  layout: StoryboardLayout,
): Promise<void> {
  const { tiles, columns, rows } = layout;
  const sprite = { width: columns * layout.width, height: rows * layout.height };
  if (Math.max(sprite.width, sprite.height) > maxJpegEdge || sprite.width * sprite.height > context.limits.maxPixels) {
    throw new Error(
      `its ${tiles} tiles would make an image of ${sprite.width} x ${sprite.height} pixels; make them smaller or fewer`,
    );
  }
  const { pixels, note } = await drawTiles(context, layout, sprite.width);
  context.progress(0.9);
  const place = join(context.outDir, `${planned.name}.${planned.extension}`);
  const picture = fromRaw({ data: pixels, ...sprite, channels: 3 });
  const facts = await writeVerifiedImage(place, sprite, (temporary) =>
    picture.jpeg({ quality: planned.preset.quality, progressive: true }).toFile(temporary),
  );
  context.finish(planned, readyFile(planned, place, facts, [note]));
}

/** The limit of libjpeg. */
const maxJpegEdge = 65_500;

/** The frames for a storyboard's tiles. */
interface TileFrames {
  /** Frames in order, for the first tiles or for all. */
  readonly frames: Buffer[];
  readonly note: string;
}

async function drawTiles(
  context: StepContext,
  layout: StoryboardLayout,
  spriteWidth: number,
): Promise<{ pixels: Buffer; note: string }> {
  const { tiles, columns, rows, width, height, durationMs } = layout;
  const pixels = Buffer.alloc(spriteWidth * rows * height * 3);
  const { frames, note } = await collectFrames(context, layout);
  // If the video ends before the audio, its last frame fills the remaining tiles, as players show it.
  for (let tile = 0; tile < tiles; tile++) {
    const frame = frames[Math.min(tile, frames.length - 1)] ?? Buffer.alloc(width * height * 3);
    const [left, top] = [(tile % columns) * width, Math.floor(tile / columns) * height];
    for (let row = 0; row < height; row++) {
      pixels.set(frame.subarray(row * width * 3, (row + 1) * width * 3), ((top + row) * spriteWidth + left) * 3);
    }
  }
  return { pixels, note: `${tiles} tiles, ${(durationMs / tiles / 1_000).toFixed(1)} s apart${note}.` };
}

/**
 * Collects keyframes first, because they cost almost nothing. Tiles without one are decoded from the keyframe before. If that
 * would decode nearly everything, the whole video is decoded in one pass.
 */
async function collectFrames(context: StepContext, layout: StoryboardLayout): Promise<TileFrames> {
  const { tiles, durationMs } = layout;
  const apartMs = durationMs / tiles;
  const keyed = await decodePass(context, layout, 'keyframes');
  const gaps = keyframeGaps(keyed.times, tiles, apartMs);
  if (gaps.length === 0 && keyed.frames.length > 0) return { frames: keyed.frames, note: ', from keyframes only' };
  const decodedMs = gaps.reduce((sum, gap) => sum + gap.decodedMs + seekCostMs, 0);
  if (keyed.frames.length > 0 && decodedMs < worthSeekingShare * durationMs) {
    const filled = await fillGaps(context, layout, keyed.frames, gaps);
    const missing = gaps.reduce((sum, gap) => sum + gap.tiles, 0);
    if (filled) return { frames: filled, note: `, from keyframes except ${missing}` };
  }
  // Frames that no other refers to are skipped if the resulting gaps are short; that saves half of the work.
  if (canSkipUnreferenced(context)) {
    const { frames, times } = await decodePass(context, layout, 'referred');
    const widest = times.reduce((most, time, n) => Math.max(most, time - (times[n - 1] ?? time)), 0);
    if (frames.length > 0 && widest <= apartMs / 2) return { frames, note: '' };
  }
  const { frames } = await decodePass(context, layout, 'all');
  if (frames.length === 0) throw undecodableError();
  return { frames, note: '' };
}

/** Cost of a seek, as the duration of video that could be decoded in that time. */
const seekCostMs = 3_000;
/** Seeking pays only if less than this share of the video has to be decoded; otherwise one pass is as fast. */
const worthSeekingShare = 0.8;

/** True if a decoder may skip unreferenced frames. Fields would lose each other, and other codecs have no such frames. */
function canSkipUnreferenced(context: StepContext): boolean {
  const { codec, interlaced } = videoTrack(context);
  return !interlaced && ['h264', 'hevc', 'mpeg2video', 'mpeg4'].includes(codec);
}

async function decodePass(
  context: StepContext,
  layout: StoryboardLayout,
  decoded: Decoded,
): Promise<{ frames: Buffer[]; times: number[] }> {
  const { path, source, scratch } = context;
  const { tiles, durationMs } = layout;
  const file = join(scratch, `${decoded}.raw`);
  const times: number[] = [];
  let rest = '';
  await context.ffmpeg(tilesArgs(path, source, layout, { tiles, durationMs, decoded, file }), {
    onOutput(piece) {
      const text = rest + piece.toString('latin1');
      const end = text.lastIndexOf('\n') + 1;
      rest = text.slice(end);
      for (const time of parseTimes(text.slice(0, end))) times.push(time);
      context.progress((0.9 * (times.at(-1) ?? 0)) / durationMs);
    },
  });
  return { frames: await readFrames(file, layout), times };
}

async function readFrames(file: string, { width, height }: StoryboardLayout): Promise<Buffer[]> {
  const raw = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    // Without any frame, some versions create no file.
    if (error.code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  });
  const bytes = width * height * 3;
  return Array.from({ length: Math.floor(raw.length / bytes) }, (_, n) => raw.subarray(n * bytes, (n + 1) * bytes));
}

/** Limits the decoders that are open at once: each keeps a dozen frames. */
const pixelsAtOnce = 16_000_000;

/** All frames, with those of the gaps inserted. Null if seeks in the video do not work. */
async function fillGaps(
  context: StepContext,
  layout: StoryboardLayout,
  keyed: readonly Buffer[],
  gaps: readonly KeyframeGap[],
): Promise<Buffer[] | null> {
  const { path, source, scratch } = context;
  const { codedWidth, codedHeight } = videoTrack(context);
  const most = Math.max(1, Math.floor(pixelsAtOnce / (codedWidth * codedHeight)));
  const frames = [...keyed];
  for (let at = 0; at < gaps.length; at += most) {
    const wanted = gaps.slice(at, at + most).map((gap) => ({
      ...{ gap, atMs: gap.atMs, apartMs: layout.durationMs / layout.tiles, frames: gap.tiles },
      file: join(scratch, `gap-${gap.first}.raw`),
    }));
    try {
      const output = await context.ffmpeg(seriesArgs(path, source, layout, wanted));
      const times = parseFrameTimes(
        output.toString('latin1'),
        wanted.map(({ atMs }) => ({ atMs, seek: 'exact' })),
      );
      // A transport stream has no index, so a seek may end after the keyframe that it needs.
      const late = wanted.some(({ atMs, apartMs }, n) => (times.get(n) ?? Infinity) > atMs + apartMs / 2);
      if (late) return null;
    } catch (error) {
      if (error instanceof ProgramError && error.failure === 'exit') return null;
      throw error;
    }
    for (const { gap, file } of wanted) {
      const found = await readFrames(file, layout);
      for (let n = 0; n < gap.tiles; n++) {
        const frame = found[n] ?? frames[gap.first + n - 1];
        if (frame !== undefined) frames[gap.first + n] = frame;
      }
    }
    context.progress(0.1 + (0.8 * (at + wanted.length)) / gaps.length);
  }
  return frames;
}
