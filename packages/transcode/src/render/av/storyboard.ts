import { join } from 'node:path';
import { tilesArgs } from '../../ffmpeg/argv/frames.ts';
import { sourceProbeOptions } from '../../ffmpeg/input.ts';
import type { PlannedRendition } from '../../plan.ts';
import { presetRevision, spriteOf } from '../../presets/presets.ts';
import type { StoryboardIndexPreset, StoryboardPreset, StoryboardSpritePreset } from '../../presets/video.ts';
import { fromRaw } from '../decode.ts';
import { readyFile, writeWhole, writeWholeText } from '../output-file.ts';
import { nothingDecodes, videoTrack } from './poster-frame.ts';
import type { Step, StepContext } from './step.ts';
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

/** A sprite of frames, or the index that says where in it each stretch of the video is shown: neither needs the other. */
export function storyboardStep(planned: PlannedStoryboard, weight: number): Step {
  return {
    name: `${planned.name}.${planned.extension}`,
    renditions: [planned],
    weight,
    async run(context) {
      const layout = storyboardLayout(planned, context.source.durationMs);
      if (isIndex(planned)) await writeIndex(context, planned, layout);
      else if (isSprite(planned)) await writeSprite(context, planned, layout);
    },
  };
}

async function writeIndex(
  context: StepContext,
  planned: Planned<StoryboardIndexPreset>,
  layout: StoryboardLayout,
): Promise<void> {
  const sprite = spriteOf(planned.preset);
  const text = storyboardIndex(layout, `${sprite.name}.${presetRevision(sprite)}.${sprite.extension}`);
  const place = join(context.outDir, `${planned.name}.${planned.extension}`);
  const facts = await writeWholeText(place, text);
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
      `its ${tiles} tiles would make a picture of ${sprite.width} x ${sprite.height}; make them smaller or fewer`,
    );
  }
  const { pixels, note } = await paint(context, layout, sprite.width);
  context.progress(0.9);
  const place = join(context.outDir, `${planned.name}.${planned.extension}`);
  const picture = fromRaw({ data: pixels, ...sprite, channels: 3 });
  const facts = await writeWhole(place, sprite, (temporary) =>
    picture.jpeg({ quality: planned.preset.quality, progressive: true }).toFile(temporary),
  );
  context.finish(planned, readyFile(planned, place, facts, [note]));
}

/** libjpeg's. */
const maxJpegEdge = 65_500;

/** Puts each frame into its place as soon as it has come: no more is kept than the sprite itself. */
async function paint(
  context: StepContext,
  layout: StoryboardLayout,
  spriteWidth: number,
): Promise<{ pixels: Buffer; note: string }> {
  const { tiles, columns, rows, width, height, durationMs } = layout;
  const pixels = Buffer.alloc(spriteWidth * rows * height * 3);
  const frameBytes = width * height * 3;
  const put = (tile: number, frame: Uint8Array) => {
    const [left, top] = [(tile % columns) * width, Math.floor(tile / columns) * height];
    for (let row = 0; row < height; row++) {
      pixels.set(frame.subarray(row * width * 3, (row + 1) * width * 3), ((top + row) * spriteWidth + left) * 3);
    }
  };
  const keyframesOnly = await keyframesWillDo(context, durationMs / tiles);
  const frame = Buffer.alloc(frameBytes);
  let filled = 0;
  let tile = 0;
  await context.ffmpeg(tilesArgs(context.path, context.source, layout, { tiles, durationMs, keyframesOnly }), {
    onOutput(piece) {
      for (let at = 0; at < piece.length && tile < tiles; ) {
        const taken = piece.copy(frame, filled, at);
        [filled, at] = [filled + taken, at + taken];
        if (filled < frameBytes) break;
        put(tile++, frame);
        filled = 0;
        context.progress((0.9 * tile) / tiles);
      }
    },
  });
  if (tile === 0) throw nothingDecodes();
  // Where the pictures end before the sound, the last one stands until the end, as players show it.
  while (tile < tiles) put(tile++, frame);
  const apart = `${tiles} tiles, ${(durationMs / tiles / 1_000).toFixed(1)} s apart`;
  return { pixels, note: keyframesOnly ? `${apart}, from keyframes alone.` : `${apart}.` };
}

/** Of the coarsest container (Matroska's): two times may each be rounded by half of it. */
const timeStepMs = 1;
/** Seconds of the video from which the distance between keyframes is judged. */
const lookedAtS = 60;

/** Decoding keyframes alone costs a fraction of decoding everything. It will do where every tile's stretch has one. */
async function keyframesWillDo(context: StepContext, apartMs: number): Promise<boolean> {
  const { index } = videoTrack(context);
  const packets = await context.ffprobe([
    ...sourceProbeOptions(context.source),
    ...['-select_streams', String(index), '-read_intervals', `%+${lookedAtS}`],
    ...['-show_entries', 'packet=pts_time,flags', '-of', 'csv=p=0', context.path],
  ]);
  const times: number[] = [];
  let end = 0;
  for (const line of packets.toString('latin1').split('\n')) {
    const [time, flags] = line.split(',');
    const seconds = Number(time);
    if (time === '' || !Number.isFinite(seconds)) continue;
    end = Math.max(end, seconds);
    if (flags?.startsWith('K')) times.push(seconds);
  }
  if (times.length < 2) return false;
  const gaps = [...times.slice(1), end].map((time, n) => time - (times[n] ?? time));
  return Math.max(...gaps) * 1_000 <= apartMs + timeStepMs;
}
