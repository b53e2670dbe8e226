import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { EdgeResource } from '@mds/contract';
import { z } from 'zod';
import type { Logger } from '../base/logger.ts';

/** What the origin said of a path. */
export const KnownPath = z.strictObject({
  /** When it last stood by it: of the wall clock, milliseconds since the epoch. */
  at_ms: z.number(),
  /** The address that is named in what was made for this node. */
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

/** The first line: whose paths these are. Anything else is of another origin or another version, and means nothing here. */
const Head = z.strictObject({ version: z.literal(1), origin: z.string() });

/** What a point of presence knows of paths, kept in its data folder for its next start. Written behind, in order. */
export interface PathJournal {
  /** What was known when the process before ended, however it did; the latest last. */
  read(): Promise<KnownPath[]>;
  /** From now on the file is kept up. @param all everything that is known, whenever the file is written anew */
  start(all: () => Iterable<KnownPath>): void;
  keep(known: KnownPath): void;
  forget(path: string): void;
  forgetMedia(mediaId: string): void;
  forgetAll(): void;
  /** Whether the file has forgotten what was to be, so that a process that is killed now finds nothing of it at its next start. */
  readonly hasForgotten: boolean;
  /** Resolves when it has. */
  forgotten(): Promise<void>;
  /** The same for a machine that loses its power. */
  sync(): Promise<void>;
  stop(): Promise<void>;
}

const PRIVATE_FILE = 0o600;
/** The file is written anew when it has more than this beyond twice what is known. */
const MAX_EXCESS_BYTES = 4 * 1024 * 1024;
/** Between two tries where it cannot be written. */
const RETRY_MS = 10_000;
/** Written at once, so that others have their turn between two of them. */
const CHUNK_BYTES = 256 * 1024;

/**
 * {@link PathJournal} as a file of lines, each with a checksum. Where it can't be written it is removed: better nothing is known
 * after the next start than something that was purged.
 * @param deps.file absolute
 */
export function createPathJournal(deps: {
  file: string;
  originUrl: string;
  logger: Pick<Logger, 'info' | 'warn'>;
  maxExcessBytes?: number;
}): PathJournal {
  const { file, originUrl, logger, maxExcessBytes = MAX_EXCESS_BYTES } = deps;
  let all: () => Iterable<KnownPath> = () => [];
  let handle: FileHandle | null = null;
  let pending: string[] = [];
  let fileBytes = 0;
  let anewBytes = 0;
  /** Nothing is told before `start`, after `stop`, or of a file that is gone. */
  let isKept = false;
  let writing: Promise<void> | null = null;
  let failedAtMs: number | null = null;
  /** Lines since the start: told, the latest of those that forget, and in the file. */
  let told = 0;
  let toldToForget = 0;
  let done = 0;
  let waiting: (() => void)[] = [];

  const note = (line: z.infer<typeof Line>) => {
    if (!isKept) return;
    told += 1;
    if (!('known' in line)) toldToForget = told;
    pending.push(sealed(line));
    run();
  };

  const run = () => {
    if (writing !== null) return;
    writing = work()
      .catch(giveUp)
      .finally(() => {
        writing = null;
        if (isKept && pending.length > 0) run();
      });
  };

  const markDone = (upTo: number) => {
    done = upTo;
    const listeners = waiting;
    waiting = [];
    for (const tell of listeners) tell();
  };

  const work = async () => {
    if (failedAtMs !== null && performance.now() - failedAtMs < RETRY_MS) {
      // There is no file that could be wrong; when there is one again, it begins with all that is known by then.
      pending = [];
      markDone(told);
      return;
    }
    if (handle === null || fileBytes > 2 * anewBytes + maxExcessBytes) await writeAnew();
    while (pending.length > 0 && handle !== null) {
      const text = pending.join('');
      const upTo = told;
      pending = [];
      fileBytes += await append(handle, text);
      markDone(upTo);
    }
    if (failedAtMs !== null) logger.info('what is known of paths is kept again for the next start');
    failedAtMs = null;
  };

  /** What is told meanwhile is pending, and comes after it. */
  const writeAnew = async () => {
    const temporary = `${file}.tmp`;
    const next = await open(temporary, 'w', PRIVATE_FILE);
    try {
      let bytes = 0;
      let chunk = sealed({ version: 1, origin: originUrl });
      for (const known of all()) {
        chunk += sealed({ known });
        if (chunk.length < CHUNK_BYTES) continue;
        bytes += await append(next, chunk);
        chunk = '';
      }
      bytes += await append(next, chunk);
      await next.sync();
      await rename(temporary, file);
      await handle?.close();
      handle = next;
      fileBytes = anewBytes = bytes;
    } catch (error) {
      await next.close();
      await rm(temporary, { force: true });
      throw error;
    }
  };

  const giveUp = async (error: unknown) => {
    if (failedAtMs === null) {
      logger.warn({ err: error }, 'what is known of paths cannot be kept for the next start; that is tried again');
    }
    failedAtMs = performance.now();
    pending = [];
    await handle?.close().catch(() => undefined);
    handle = null;
    await rm(file, { force: true }).catch((second: unknown) => {
      logger.warn({ err: second }, 'the file of what is known of paths could not be removed');
    });
    markDone(told);
  };

  const forgotten = async () => {
    const upTo = toldToForget;
    while (done < upTo) await new Promise<void>((resolve) => waiting.push(resolve));
  };

  return {
    async read() {
      const found = new Map<string, KnownPath>();
      let head: z.infer<typeof Head> | null = null;
      let damaged = false;
      try {
        for await (const text of createInterface({ input: createReadStream(file) })) {
          // A crash leaves a part of the last line. Damage before others may have hidden that something was forgotten.
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
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
        logger.warn({ err: error }, 'what was known of paths before could not be read; it is asked for again');
        return [];
      }
      return [...found.values()];
    },

    start(known) {
      all = known;
      isKept = true;
      // Also rids the file of what a crash has left of its last line.
      run();
    },

    keep: (known) => note({ known }),
    forget: (path) => note({ forget: path }),
    forgetMedia: (mediaId) => note({ forget_medium: mediaId }),
    forgetAll: () => note({ forget_all: true }),

    get hasForgotten() {
      return done >= toldToForget;
    },
    forgotten,

    async sync() {
      await forgotten();
      await handle?.sync();
    },

    async stop() {
      isKept = false;
      await writing;
      await handle?.close();
      handle = null;
    },
  };
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

/** @returns bytes written */
async function append(handle: FileHandle, text: string): Promise<number> {
  const bytes = Buffer.from(text);
  await handle.appendFile(bytes);
  return bytes.length;
}

function checksum(json: string): string {
  return createHash('sha256').update(json).digest('hex').slice(0, 16);
}

function sealed(content: unknown): string {
  const json = JSON.stringify(content);
  return `${checksum(json)} ${json}\n`;
}

/** What a line holds; undefined where it is not what was written. */
function unsealed(line: string): unknown {
  const json = line.slice(17);
  return line.slice(0, 17) === `${checksum(json)} ` ? JSON.parse(json) : undefined;
}
