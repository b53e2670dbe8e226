import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, release, totalmem, type } from 'node:os';
import { root } from './needs.ts';

const require = createRequire(import.meta.url);

/** The machine and the versions of a measurement. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly system: string;
  /** Short hash of the commit that was measured, with `+` if files differ from it; null outside a git checkout. */
  readonly commit: string | null;
  readonly versions: Readonly<Record<string, string>>;
}

/** This machine, and the versions of the measured programs. */
export function thisMachine(): Machine {
  const sharp = require('sharp') as { versions: Record<string, string | undefined> };
  const pick = (name: string) => sharp.versions[name] ?? 'unknown';
  const packageVersion = (name: string) => (require(`${name}/package.json`) as { version: string }).version;
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGib: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()} ${process.arch}`,
    commit: measuredCommit(),
    versions: {
      node: process.versions.node,
      sharp: pick('sharp'),
      libvips: pick('vips'),
      libwebp: pick('webp'),
      libaom: pick('aom'),
      mozjpeg: pick('mozjpeg'),
      ipx: ipxVersion(),
      autocannon: packageVersion('autocannon'),
    },
  };
}

function measuredCommit(): string | null {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' }).trim();
  try {
    // Ignores docs/performance.md: the benchmarks themselves change it.
    const changed = git('status', '--porcelain', '--', '.', ':!docs/performance.md');
    return git('rev-parse', '--short', 'HEAD') + (changed === '' ? '' : '+');
  } catch {
    return null;
  }
}

/** The version of ipx. It does not export its package.json, which is beside the folder of its entry. */
function ipxVersion(): string {
  const entry = require.resolve('ipx');
  const root = entry.slice(0, entry.lastIndexOf('dist'));
  return (require(`${root}package.json`) as { version: string }).version;
}
