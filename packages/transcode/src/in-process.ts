/**
 * The engine without its isolation, for benchmarks and tests of this package. Importing it loads libvips. Never give it
 * untrusted bytes.
 */
export { findPrograms } from './ffmpeg/programs.ts';
export { identifyFile } from './identify/identify.ts';
export { defaultLimits } from './limits.ts';
export { planRenditions } from './plan.ts';
export { defaultPresets, parsePresets } from './presets/presets.ts';
export { renderAv } from './render/av/render-av.ts';
export { type ImageRenderOptions, renderImage } from './render/image.ts';
