import { createEngine, planRenditions } from '@mds/transcode';
import { serveRenderer } from './renderer.ts';

/** Our engine as the service runs it: identification and rendering in isolated processes. */
const engine = createEngine();
serveRenderer(async ({ source, outDir, presets }) => {
  const identified = await engine.identify(source);
  const plan = planRenditions(identified, presets);
  const { renditions } = await engine.render({ path: source, source: identified, plan, outDir });
  const failed = renditions.find(({ state }) => state !== 'ready');
  if (failed) throw new Error(`${failed.name}.${failed.extension} failed: ${JSON.stringify(failed)}`);
});
