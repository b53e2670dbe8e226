// Joins what an app loads into few files: `node ../../scripts/bundle.mjs`, after `tsc`, in the app's folder. Node finds, reads and links
// each module by itself; for the 780 of the service that was half the work of a start.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, relative, sep } from 'node:path';
import { ROOT } from './workspace.mjs';

const { build } = createRequire(`${ROOT}apps/server/package.json`)('esbuild');

const APP = process.cwd();
const SOURCE = join(APP, 'src');
const DIST = join(APP, 'dist');
const CHUNK_PREFIX = 'chunk-';
/** The programs of an app; only the service has a worker. */
const ENTRIES = ['main.ts', 'worker-process.ts'];

/** Native, optional, with files beside their code, or loaded only if a setting or a request asks for them. */
const EXTERNAL = [
  ...['better-sqlite3', 'better-sqlite3-node20', 'pg', '@aws-sdk/client-s3', 'bullmq', 'ioredis'],
  ...['pino-pretty', 'swagger-ui-dist'],
];

/** Modules find files by their own address. In a chunk, it stays the address of the file that `tsc` wrote. */
const keepAddresses = {
  name: 'keep-addresses',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/](src|dist)[\\/].*\.[jt]s$/ }, async ({ path }) => {
      // The folders above the workspace may have any name.
      if (relative(ROOT, path).includes('node_modules')) return null;
      const emitted = path.startsWith(SOURCE) ? join(DIST, relative(SOURCE, path)).replace(/\.ts$/, '.js') : path;
      const address = JSON.stringify(`./${relative(DIST, emitted).split(sep).join('/')}`);
      const text = await readFile(path, 'utf8');
      return {
        contents: text.replaceAll('import.meta.url', `new URL(${address}, import.meta.url).href`),
        loader: path.endsWith('.ts') ? 'ts' : 'js',
      };
    });
  },
};

/** zod exports its messages in 60 languages; we use the English ones. */
const englishOnly = {
  name: 'english-only',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js';",
    }));
  },
};

for (const name of readdirSync(DIST)) if (name.startsWith(CHUNK_PREFIX)) rmSync(join(DIST, name));
await build({
  // From the source, as this overwrites what `tsc` made of them.
  entryPoints: ENTRIES.map((name) => join(SOURCE, name)).filter(existsSync),
  outdir: DIST,
  allowOverwrite: true,
  chunkNames: `${CHUNK_PREFIX}[hash]`,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  // `import()` of a package in CommonJS would give its exports as `default` alone, not by name as Node does.
  mainFields: ['module', 'main'],
  external: EXTERNAL,
  plugins: [keepAddresses, englishOnly],
  // Packages written in CommonJS call `require` for the modules of Node.
  banner: {
    js: "import { createRequire as createRequireOfChunk } from 'node:module';\nconst require = createRequireOfChunk(import.meta.url);",
  },
  sourcemap: 'linked',
  sourcesContent: false,
  logLevel: 'warning',
});
