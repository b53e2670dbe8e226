import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Programs } from './ffmpeg/programs.ts';
import { recipes } from './presets/presets.ts';

/**
 * Versions of everything that decides which formats can be decoded and how renditions look. Format proofs are stored under
 * them. They are read from package files; libvips itself is not loaded.
 */
export function engineVersions(programs: Programs | null): Record<string, string> {
  const require = createRequire(import.meta.url);
  const sharp = packageOf(require.resolve('sharp'), 'sharp');
  const libvips = Object.entries(sharp.optionalDependencies ?? {}).find(([name]) =>
    name.startsWith('@img/sharp-libvips-'),
  );
  return {
    sharp: sharp.version,
    'sharp-libvips': libvips?.[1] ?? 'unknown',
    'libheif-js': packageOf(require.resolve('libheif-js'), 'libheif-js').version,
    ffmpeg: programs?.ffmpeg.version ?? 'none',
    ffprobe: programs?.ffprobe.version ?? 'none',
    recipe: Object.values(recipes).join('.'),
  };
}

interface PackageFile {
  name?: string;
  version: string;
  optionalDependencies?: Record<string, string>;
}

/** Finds the package file above a module, because packages need not export it. */
function packageOf(modulePath: string, name: string): PackageFile {
  for (let folder = dirname(modulePath); folder !== dirname(folder); folder = dirname(folder)) {
    try {
      const found = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as PackageFile;
      if (found.name === name) return found;
    } catch {
      // No package file here: search further up.
    }
  }
  return { version: 'unknown' };
}
