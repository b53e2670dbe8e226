/**
 * The engine under test: the built one if `npm test` has set MDS_TEST_BUILT after `npm run build`, else the source. Children
 * that run from source first load a compiler and compile all modules, which is three times the work.
 */
const entry = process.env['MDS_TEST_BUILT'] === '1' ? '../dist/index.js' : '../src/index.ts';
const engine: typeof import('../src/index.ts') = await import(new URL(entry, import.meta.url).href);

/** Exports for tests. Errors are recognized by class, and the built engine and the source have different classes. */
export const { createEngine, MediaRejectedError, RenderError } = engine;
