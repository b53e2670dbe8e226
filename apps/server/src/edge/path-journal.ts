import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { EdgeResource } from '@mds/contract';
import { z } from 'zod';
import type { Logger } from '../base/logger.ts';

/** An answer of the origin for a path. */
export const KnownPath = z.strictObject({
  /** When the origin last gave it: wall clock, milliseconds since the epoch. */
  at_ms: z.number(),
  /** The address of this node that the content names. */
  base_url: z.string(),
  resource: EdgeResource,
});
export type KnownPath = z.infer<typeof KnownPath>;

const Line = z.union([
  z.strictObject({ known: KnownPath }),
  z.strictObject({ forget: z.string() }),
  z.strictObject({ forget_medium: z.string() }),
  z.strictObject({ forget_all: z.literal(true) }),
]);

/** The first line names the origin. A file of another origin or version is ignored. */
const Head = z.strictObject({ version: z.literal(1), origin: z.string() });

/** Stores what a point of presence knows of paths for its next start, in the data folder. Written in the background, in order. */
export interface PathJournal {
  /** Returns the paths known at the end of the previous process, even if it was killed. The latest is last. */
  read(): Promise<KnownPath[]>;
  /** From now on the file is updated. @param all everything that is known, each time that the file is rewritten */
  start(all: () => Iterable<KnownPath>): void;
  keep(known: KnownPath): void;
  forget(path: string): void;
  forgetMedia(mediaId: string): void;
  forgetAll(): void;
  /** Whether every removal is in the file, so that it holds even if the process is killed now. */
  readonly hasForgotten: boolean;
  /** Resolves when every removal up to now is in the file. */
  forgotten(): Promise<void>;
  /** Resolves when they are synced to disk, so that they survive a power failure. */
  sync(): Promise<void>;
  stop(): Promise<void>;
}

const PRIVATE_FILE = 0o600;
/** The file is rewritten when it exceeds twice the size of what is known by this. */
const MAX_EXCESS_BYTES = 4 * 1024 * 1024;
/** Between two attempts to write if the file cannot be written. */
const RETRY_MS = 10_000;
/** Written at once. Other work gets its turn between two chunks. */
const CHUNK_BYTES = 256 * 1024;

export interface PathJournalParts {
  /** Absolute. */
  file: string;
  originUrl: string;
  logger: Pick<Logger, 'info' | 'warn'>;
  maxExcessBytes?: number;
}

/**
 * {@link PathJournal} as a file of lines, each with a checksum. If it cannot be written, it is removed: the next start must not know paths
 * that were purged.
 */
export function createPathJournal(deps: PathJournalParts): PathJournal {
  const { file, originUrl, logger, maxExcessBytes = MAX_EXCESS_BYTES } = deps;
  let all: () => Iterable<KnownPath> = () => [];
  /** Null before the first rewrite, and while the file cannot be written. */
  let written: WrittenFile | null = null;
  let pending: string[] = [];
  /** From `start` to `stop`. */
  let isActive = false;
  let writing: Promise<void> | null = null;
  let failedAtMs: number | null = null;
  /** Numbers of lines since the start: the latest, the latest removal, and the latest in the file. */
  let lastLine = 0;
  let lastRemoval = 0;
  let done = 0;
  let waiting: (() => void)[] = [];

  const note = (line: z.infer<typeof Line>) => {
    if (!isActive) return;
    lastLine += 1;
    if (!('known' in line)) lastRemoval = lastLine;
    pending.push(sealed(line));
    run();
  };

  const run = () => {
    if (writing !== null) return;
    writing = work()
      .catch(giveUp)
      .finally(() => {
        writing = null;
        if (isActive && pending.length > 0) run();
      });
  };

  const markDone = (upTo: number) => {
    done = upTo;
    const listeners = waiting;
    waiting = [];
    for (const resolve of listeners) resolve();
  };

  const work = async () => {
    if (failedAtMs !== null && performance.now() - failedAtMs < RETRY_MS) {
      // There is no file that could be wrong. The next one begins with everything that is known then.
      pending = [];
      markDone(lastLine);
      return;
    }
    const target =
      written === null || written.bytes > 2 * written.rewrittenBytes + maxExcessBytes ? await rewrite() : written;
    while (pending.length > 0) {
      const text = pending.join('');
      const upTo = lastLine;
      pending = [];
      target.bytes += await append(target.handle, text);
      markDone(upTo);
    }
    if (failedAtMs !== null) logger.info('known paths are stored again');
    failedAtMs = null;
  };

  /** Lines that come meanwhile are pending, and follow. */
  const rewrite = async (): Promise<WrittenFile> => {
    const before = written;
    written = await replaceFile(file, wholeJournal(originUrl, all));
    await before?.handle.close();
    return written;
  };

  const giveUp = async (error: unknown) => {
    if (failedAtMs === null) {
      logger.warn({ err: error }, 'known paths cannot be stored; retrying');
    }
    failedAtMs = performance.now();
    pending = [];
    await written?.handle.close().catch(() => undefined);
    written = null;
    await rm(file, { force: true }).catch((second: unknown) => {
      logger.warn({ err: second }, 'file of known paths could not be removed');
    });
    markDone(lastLine);
  };

  const forgotten = async () => {
    const upTo = lastRemoval;
    while (done < upTo) await new Promise<void>((resolve) => waiting.push(resolve));
  };

  return {
    async read() {
      try {
        return await readJournal(file, originUrl);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
        logger.warn({ err: error }, 'known paths could not be read; the origin is asked again');
        return [];
      }
    },

    start(known) {
      all = known;
      isActive = true;
      // Rewrites the file, as a crash may have cut its last line.
      run();
    },

    keep: (known) => note({ known }),
    forget: (path) => note({ forget: path }),
    forgetMedia: (mediaId) => note({ forget_medium: mediaId }),
    forgetAll: () => note({ forget_all: true }),

    get hasForgotten() {
      return done >= lastRemoval;
    },
    forgotten,

    async sync() {
      await forgotten();
      await written?.handle.sync();
    },

    async stop() {
      isActive = false;
      await writing;
      await written?.handle.close();
      written = null;
    },
  };
}

/** A file that this process has written, open for more. */
interface WrittenFile {
  handle: FileHandle;
  bytes: number;
  /** Its size when it replaced the one before it. */
  rewrittenBytes: number;
}

/** Replaces the file at a path, durably. If that fails, the earlier file is unchanged. */
async function replaceFile(path: string, lines: Iterable<string>): Promise<WrittenFile> {
  const temporary = `${path}.tmp`;
  const handle = await open(temporary, 'w', PRIVATE_FILE);
  try {
    let bytes = 0;
    let chunk = '';
    for (const line of lines) {
      chunk += line;
      if (chunk.length < CHUNK_BYTES) continue;
      bytes += await append(handle, chunk);
      chunk = '';
    }
    bytes += await append(handle, chunk);
    await handle.sync();
    await rename(temporary, path);
    return { handle, bytes, rewrittenBytes: bytes };
  } catch (error) {
    await handle.close();
    await rm(temporary, { force: true });
    throw error;
  }
}

/** @returns bytes written */
async function append(handle: FileHandle, text: string): Promise<number> {
  const bytes = Buffer.from(text);
  await handle.appendFile(bytes);
  return bytes.length;
}

/** The lines of a rewritten journal. */
function* wholeJournal(originUrl: string, all: () => Iterable<KnownPath>): Generator<string> {
  yield sealed({ version: 1, origin: originUrl });
  for (const known of all()) yield sealed({ known });
}

/** Empty if it is not a whole journal of this origin. */
async function readJournal(file: string, originUrl: string): Promise<KnownPath[]> {
  const found = new Map<string, KnownPath>();
  let head: z.infer<typeof Head> | null = null;
  let damaged = false;
  for await (const text of createInterface({ input: createReadStream(file) })) {
    // A crash cuts the last line. Damage before another line may hide that a path was forgotten.
    if (damaged) return [];
    const content = unsealed(text);
    if (head === null) {
      head = Head.safeParse(content).data ?? null;
      if (head?.origin !== originUrl) return [];
      continue;
    }
    const line = Line.safeParse(content);
    if (line.success) apply(found, line.data);
    else damaged = true;
  }
  return [...found.values()];
}

function apply(found: Map<string, KnownPath>, line: z.infer<typeof Line>): void {
  if ('known' in line) {
    const { path } = line.known.resource;
    found.delete(path);
    found.set(path, line.known);
  } else if ('forget' in line) found.delete(line.forget);
  else if ('forget_medium' in line) {
    const { forget_medium: mediaId } = line;
    for (const [path, { resource }] of found) {
      if (resource.representations.some((one) => one.media_id === mediaId)) found.delete(path);
    }
  } else found.clear();
}

function checksum(json: string): string {
  return createHash('sha256').update(json).digest('hex').slice(0, 16);
}

function sealed(content: unknown): string {
  const json = JSON.stringify(content);
  return `${checksum(json)} ${json}\n`;
}

/** The content of a line; undefined if the checksum does not match. */
function unsealed(line: string): unknown {
  const json = line.slice(17);
  return line.slice(0, 17) === `${checksum(json)} ` ? JSON.parse(json) : undefined;
}
