import type { ImagePreset } from '../pictures/image-presets.ts';

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** One picture to make every output of, as `name.extension` in `outDir`. */
export interface RenderRequest {
  readonly source: string;
  /** The source's size as displayed. */
  readonly size: Size;
  readonly outDir: string;
  readonly presets: readonly ImagePreset[];
}

/** The messages between the two ends of a renderer's process. */
export type RendererMessage = { ready: true } | { ms: number } | { error: string };

/** The work of one side: everything from the file to the last output on disk. */
export type Render = (request: RenderRequest) => Promise<void>;

/** Name of a preset's output. */
export function fileName({ name, extension }: ImagePreset): string {
  return `${name}.${extension}`;
}

/** The required size of an output: within the preset's box, with the shape kept, never enlarged. */
export function fitInside(size: Size, { width, height }: ImagePreset): Size {
  const scale = Math.min(1, (width ?? size.width) / size.width, (height ?? size.height) / size.height);
  return { width: Math.max(1, Math.round(size.width * scale)), height: Math.max(1, Math.round(size.height * scale)) };
}

/** Serves a side in its own process and measures there, so that messages between the processes do not count. */
export function serveRenderer(render: Render): void {
  const send = (message: RendererMessage) => process.send?.(message);
  const answer = async (request: RenderRequest) => {
    try {
      const start = performance.now();
      await render(request);
      send({ ms: performance.now() - start });
    } catch (error) {
      send({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    }
  };
  process.on('message', (request: RenderRequest) => void answer(request));
  process.on('disconnect', () => process.exit());
  send({ ready: true });
}
