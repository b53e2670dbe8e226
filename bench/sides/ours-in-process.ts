import { parseIdentified } from '@mds/transcode';
import { defaultLimits, identifyFile, planRenditions, renderImage } from '@mds/transcode/in-process';
import { serveRenderer } from './renderer.ts';

/** Our engine without its isolation: identify, plan, render. */
serveRenderer(async ({ source, outDir, presets }) => {
  const identified = parseIdentified(await identifyFile(source, defaultLimits));
  const { renditions } = await renderImage(source, planRenditions(identified, presets), outDir);
  const failed = renditions.find(({ state }) => state !== 'ready');
  if (failed) throw new Error(`${failed.name}.${failed.extension} failed: ${JSON.stringify(failed)}`);
});
