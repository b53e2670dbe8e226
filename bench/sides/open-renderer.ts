import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { RendererMessage, RenderRequest } from './renderer.ts';

/** A side that runs in its own process. */
export interface Renderer {
  /** Renders one picture; milliseconds as taken in that process. */
  render(request: RenderRequest): Promise<number>;
  stop(): Promise<void>;
}

/**
 * Starts a side in its own process. Settings of libvips (threads, caches, blocked loaders) hold for a whole process, and a peer must
 * run as its users run it.
 */
export async function openRenderer(module: string, options: readonly string[] = []): Promise<Renderer> {
  const child = fork(fileURLToPath(new URL(module, import.meta.url)), options);
  const exited = once(child, 'exit');
  const next = async (): Promise<RendererMessage> => {
    const died = exited.then(([code, signal]): never => {
      throw new Error(`${module} ended with ${signal ?? code}`);
    });
    const [message] = (await Promise.race([once(child, 'message'), died])) as [RendererMessage];
    return message;
  };
  await next();
  return {
    async render(request) {
      const answer = next();
      child.send(request);
      const message = await answer;
      if ('ms' in message) return message.ms;
      throw new Error(`${module}: ${'error' in message ? message.error : 'an unexpected answer'}`);
    },
    async stop() {
      child.disconnect();
      await exited;
    },
  };
}
