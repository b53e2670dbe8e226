import { createRequire } from 'node:module';
import { availableParallelism, cpus, release, totalmem, type } from 'node:os';

const require = createRequire(import.meta.url);

/** Where and with what a figure was measured. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly system: string;
  readonly versions: Readonly<Record<string, string>>;
}

/** This machine, and the versions of whatever does the work here. */
export function thisMachine(): Machine {
  const sharp = require('sharp') as { versions: Record<string, string | undefined> };
  const pick = (name: string) => sharp.versions[name] ?? 'unknown';
  const packageVersion = (name: string) => (require(`${name}/package.json`) as { version: string }).version;
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGib: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()} ${process.arch}`,
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

/** ipx does not export its package.json; it lies beside the folder of its entry. */
function ipxVersion(): string {
  const entry = require.resolve('ipx');
  const root = entry.slice(0, entry.lastIndexOf('dist'));
  return (require(`${root}package.json`) as { version: string }).version;
}
