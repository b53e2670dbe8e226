import { createHash, randomBytes } from 'node:crypto';
import {
  access,
  chmod,
  constants,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { Database } from '../db/sqlite/driver.ts';

/** The folder that holds everything the service keeps, and who may use it. Paths are absolute. */
export interface DataDir {
  root: string;
  /** Names the node that lives on the folder; the same after a restart. */
  nodeId: string;
  databaseFile: string;
  objectsDir: string;
  /** Bodies on their way in, each within one request; what a crash left here is removed when the owner starts. */
  stagingDir: string;
  /** Files on their way in that go on after a break or a restart: resumable uploads, fetches. */
  uploadsDir: string;
  /** Renditions in the making, and copies for programs; cleaned as `stagingDir` is, and by workers of what other workers left. */
  scratchDir: string;
  cacheDir: string;
  /** Tells a second service that is refused where the first one is. */
  announce(info: { url: string }): Promise<void>;
  /** The operator's token: the configured one, else the one of the file `control-token`, made once. */
  controlToken(configured: string | null): Promise<string>;
  /** Lets the next service in. The folder must not be used any more. */
  release(): Promise<void>;
}

/** A folder that cannot be used as the data folder; the message says what to do. */
export class DataDirError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DataDirError';
  }
}

/** Another service lives on the folder. */
export class DataDirInUseError extends DataDirError {
  constructor(message: string) {
    super(message);
    this.name = 'DataDirInUseError';
  }
}

/** The embedded database, in the data folder. */
export const DATABASE_FILE = 'mds.sqlite';

const Owner = z.object({ pid: z.int(), url: z.string().nullable(), startedAt: z.string() });
type Owner = z.infer<typeof Owner>;

const MIN_TOKEN_LENGTH = 16;
const PRIVATE_FOLDER = 0o700;
const PRIVATE_FILE = 0o600;

/** What a data folder is opened for. */
export interface DataDirUse {
  /**
   * True for the one process that answers requests: it holds the folder until it releases it or dies, however it dies, and clears away
   * what a crash left. False for workers.
   */
  exclusive: boolean;
  /** True for a point of presence that keeps nothing of its own. */
  cacheOnly?: boolean;
  /** A folder of its own in the scratch folder, for one of several processes. */
  scratch?: string;
  /** Whether the database is in it, and the objects. */
  database?: boolean;
  objects?: boolean;
}

/**
 * Opens the data folder, making what is missing: folders of mode 0700, files of mode 0600.
 * @throws DataDirInUseError that names the owner; DataDirError where the folder cannot be used
 */
export async function openDataDir(
  path: string,
  { exclusive, cacheOnly = false, scratch = '', database = !cacheOnly, objects = !cacheOnly }: DataDirUse,
): Promise<DataDir> {
  const root = resolve(path);
  const at = (name: string) => join(root, name);
  const layout = {
    databaseFile: at(DATABASE_FILE),
    objectsDir: at('objects'),
    stagingDir: at('staging'),
    uploadsDir: at('uploads'),
    scratchDir: join(at('scratch'), scratch),
    cacheDir: at('cache'),
  };
  const ownerFile = at('service.json');
  const { objectsDir, stagingDir, uploadsDir, scratchDir, cacheDir } = layout;
  const folders = cacheOnly
    ? [cacheDir]
    : [...(objects ? [objectsDir] : []), stagingDir, uploadsDir, scratchDir, cacheDir];

  await makeUsable(root, folders);
  const startedAt = new Date().toISOString();
  const lock = exclusive ? await takeLock(root, at('service.lock'), ownerFile) : null;
  const writeOwner = (url: string | null) =>
    writeFileWhole(ownerFile, JSON.stringify({ pid: process.pid, url, startedAt } satisfies Owner));

  if (lock) {
    try {
      await writeOwner(null);
      // The database's own library would make it readable to others; its side files take their mode from it.
      if (database) await (await open(layout.databaseFile, 'a', PRIVATE_FILE)).close();
      for (const folder of [stagingDir, scratchDir, join(objectsDir, '.incoming')]) await empty(folder);
    } catch (error) {
      lock.close();
      throw unusable(root, error);
    }
  }

  return {
    root,
    nodeId: `${hostname()
      .replace(/[^\x21-\x7e]/g, '-')
      .slice(0, 64)}:${createHash('sha256').update(root).digest('hex').slice(0, 16)}`,
    ...layout,
    announce: ({ url }) => writeOwner(url),
    async controlToken(configured) {
      return configured ?? (await keptToken(at('control-token')));
    },
    async release() {
      if (!lock?.open) return;
      await rm(ownerFile, { force: true });
      lock.close();
    },
  };
}

async function makeUsable(root: string, folders: string[]): Promise<void> {
  try {
    for (const folder of [root, ...folders]) {
      await makeFolder(folder);
      await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    }
  } catch (error) {
    throw unusable(root, error);
  }
}

/** Not mkdir's `recursive`: where the system gives folders but makes none (/proc), that never comes back. */
async function makeFolder(path: string): Promise<void> {
  const make = () =>
    mkdir(path, { mode: PRIVATE_FOLDER }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  try {
    await make();
  } catch (error) {
    const above = dirname(path);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || above === path) throw error;
    await makeFolder(above);
    await make();
  }
}

function unusable(root: string, cause: unknown): DataDirError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new DataDirError(
    `The data folder ${root} cannot be used (${why}). Make it a folder that this user may write to, or choose another with MDS_DATA_DIR.`,
    { cause },
  );
}

/**
 * Takes the lock of a database file that is never written to. The kernel holds it for the process and drops it with the
 * process, whatever ends it, so that no stale lock can keep the service from starting; children do not inherit it.
 */
async function takeLock(root: string, file: string, ownerFile: string): Promise<Database> {
  let lock: Database | undefined;
  try {
    await (await open(file, 'a', PRIVATE_FILE)).close();
    lock = new Database(file, { timeout: 0 });
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock?.close();
    const code = (error as { code?: string }).code ?? '';
    if (code.startsWith('SQLITE_BUSY')) throw new DataDirInUseError(await describeOwner(root, ownerFile));
    throw unusable(root, error);
  }
}

async function describeOwner(root: string, ownerFile: string): Promise<string> {
  const owner = await readOwner(ownerFile);
  const who =
    owner === null
      ? 'another service that is just starting'
      : `the service with process id ${owner.pid}, at ${owner.url ?? 'an address it has not told yet'}, running since ${owner.startedAt}`;
  return `The data folder ${root} is in use by ${who}. Stop that one first, or choose another folder with MDS_DATA_DIR.`;
}

async function readOwner(ownerFile: string): Promise<Owner | null> {
  try {
    return Owner.parse(JSON.parse(await readFile(ownerFile, 'utf8')));
  } catch {
    // The owner took the lock a moment ago and has not written who it is: the lock alone decides.
    return null;
  }
}

/** Removes what is in a folder, not the folder. What a dying worker still writes meanwhile is tried again. */
async function empty(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  for (const name of names) {
    await rm(join(folder, name), { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
}

async function keptToken(file: string): Promise<string> {
  const kept = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (kept === null) {
    const token = `mds_${randomBytes(32).toString('base64url')}`;
    await writeFileWhole(file, `${token}\n`);
    return token;
  }
  const token = kept.trim();
  if (token.length < MIN_TOKEN_LENGTH) {
    throw new DataDirError(
      `The token in ${file} is shorter than ${MIN_TOKEN_LENGTH} characters. Remove the file to have a new one made, or set MDS_CONTROL_TOKEN.`,
    );
  }
  if (((await stat(file)).mode & 0o077) !== 0) await chmod(file, PRIVATE_FILE);
  return token;
}

/** Durable, and the old content or the new, never a part of it. */
async function writeFileWhole(file: string, content: string): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  await writeFile(temporary, content, { mode: PRIVATE_FILE, flush: true });
  await rename(temporary, file);
}
