/**
 * The engine that this run tests: what `npm run build` made where `npm test` says that it has, else the source. Children of the engine
 * from source each load a compiler first, and then all that they are made of through it: that is three times the work.
 */
const entry = process.env['MDS_TEST_BUILT'] === '1' ? '../dist/index.js' : '../src/index.ts';
const engine: typeof import('../src/index.ts') = await import(new URL(entry, import.meta.url).href);

/** What tests use of it: errors are told by their classes, which each of the two has of its own. */
export const { createEngine, MediaRejectedError, RenderError } = engine;
