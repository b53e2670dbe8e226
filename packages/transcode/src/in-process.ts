/**
 * The engine without its isolation, for benchmarks and tests of this package: whoever imports it loads libvips. Never give
 * it bytes that are not trusted.
 */
export { identifyFile } from './identify/identify.ts';
export { defaultLimits } from './limits.ts';
export { planRenditions } from './plan.ts';
export { defaultPresets, parsePresets } from './presets.ts';
export { type ImageRenderOptions, renderImage } from './render/image.ts';
