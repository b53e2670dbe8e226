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

/** The folder of everything that the service stores. Paths are absolute. */
export interface DataDir {
  root: string;
  /** Names the node that uses the folder; the same after a restart. */
  nodeId: string;
  databaseFile: string;
  objectsDir: string;
  /** Request bodies that are being received. The owner removes what a crash left when it starts. */
  stagingDir: string;
  /** Resumable uploads and fetches, which continue after a restart. */
  uploadsDir: string;
  /** Unfinished renditions, and copies for programs. Cleaned like `stagingDir`, and by workers after other workers. */
  scratchDir: string;
  cacheDir: string;
  /** Notes the address of this service, for the error of a second one. */
  announce(info: { url: string }): Promise<void>;
  /** The operator's token: the configured one, else the one in the file `control-token`, which is generated once. */
  controlToken(configured: string | null): Promise<string>;
  /** The next service may use the folder from now on, and this one must not. */
  release(): Promise<void>;
}

/** The data folder cannot be used. The message includes the remedy. */
export class DataDirError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DataDirError';
  }
}

/** Another service uses the folder. */
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

/** How a data folder is used. */
export interface DataDirUse {
  /**
   * True for the process that answers requests. It locks the folder until it releases it or exits, and removes what a crash left. False
   * for workers.
   */
  exclusive: boolean;
  /** True for a point of presence, which only caches. */
  cacheOnly?: boolean;
  /** A folder of its own in the scratch folder, for one of several processes. */
  scratch?: string;
  /** Whether the database and the objects are in it. */
  database?: boolean;
  objects?: boolean;
}

/**
 * Opens the data folder, and makes missing folders (mode 0700) and files (mode 0600).
 * @throws DataDirInUseError that names the owner; DataDirError if the folder cannot be used
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
      // SQLite would make it readable to others, and its side files get the same mode.
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
      return configured ?? (await storedToken(at('control-token')));
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

/** Not mkdir's `recursive`, which never returns in file systems such as /proc. */
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
 * Locks a database file that is never written to. The kernel releases the lock when the process exits, however it exits, so that no stale
 * lock keeps the service from starting. Children do not inherit it.
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
      : `the service with process id ${owner.pid}, at ${owner.url ?? 'an address that is not known yet'}, running since ${owner.startedAt}`;
  return `The data folder ${root} is in use by ${who}. Stop that one first, or choose another folder with MDS_DATA_DIR.`;
}

async function readOwner(ownerFile: string): Promise<Owner | null> {
  try {
    return Owner.parse(JSON.parse(await readFile(ownerFile, 'utf8')));
  } catch {
    // The owner has just taken the lock and not written the file yet. Only the lock counts.
    return null;
  }
}

/** Removes the content of a folder. A dying worker may still write to it, so each removal is retried. */
async function empty(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  for (const name of names) {
    await rm(join(folder, name), { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
}

async function storedToken(file: string): Promise<string> {
  const stored = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (stored === null) {
    const token = `mds_${randomBytes(32).toString('base64url')}`;
    await writeFileWhole(file, `${token}\n`);
    return token;
  }
  const token = stored.trim();
  if (token.length < MIN_TOKEN_LENGTH) {
    throw new DataDirError(
      `The token in ${file} is shorter than ${MIN_TOKEN_LENGTH} characters. Remove the file to have a new one made, or set MDS_CONTROL_TOKEN.`,
    );
  }
  if (((await stat(file)).mode & 0o077) !== 0) await chmod(file, PRIVATE_FILE);
  return token;
}

/** Writes durably; readers see the old or the new content, never a part. */
async function writeFileWhole(file: string, content: string): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  await writeFile(temporary, content, { mode: PRIVATE_FILE, flush: true });
  await rename(temporary, file);
}
