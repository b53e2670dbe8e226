import { ConfigurationError } from '../errors.ts';
import { type NodeModules, nodeModule, nodeProcess } from './node-module.ts';
import type { UploadStore } from './upload-options.ts';

/** The service has long dropped an upload that was not continued for this time. */
const MAX_AGE_MS = 14 * 24 * 3_600_000;

const OWN_NAME = /^[0-9a-f]{64}\.json(\.[0-9a-f]{64})?$/;

interface Entry {
  key: string;
  url: string;
}

/**
 * An {@link UploadStore} in a folder: a small file for each upload, so that concurrent processes do not overwrite each other's entries.
 * Files older than two weeks are removed.
 * @param folder default: `mds/uploads` in $XDG_STATE_HOME, or in ~/.local/state
 */
export function createFileUploadStore(folder?: string): UploadStore {
  const { fs, path, crypto, os } = modules();
  const home = () => nodeProcess()?.env['XDG_STATE_HOME'] || path.join(os.homedir(), '.local', 'state');
  const root = folder ?? path.join(home(), 'mds', 'uploads');
  const fileOf = (key: string) => path.join(root, `${crypto.createHash('sha256').update(key).digest('hex')}.json`);
  return {
    async get(key) {
      try {
        return entryIn(await fs.readFile(fileOf(key), 'utf8'))?.url ?? null;
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    },
    async set(key, url) {
      await fs.mkdir(root, { recursive: true, mode: 0o700 });
      await removeOld(fs, path, root);
      const file = fileOf(key);
      const unfinished = `${file}.${crypto.createHash('sha256').update(`${url} ${Math.random()}`).digest('hex')}`;
      const entry: Entry = { key, url };
      // Renamed into place, so that a reader finds a complete file or none.
      await fs.writeFile(unfinished, JSON.stringify(entry), { mode: 0o600 });
      await fs.rename(unfinished, file);
    },
    delete: (key) => fs.rm(fileOf(key), { force: true }),
  };
}

/** Null for a damaged entry: the upload then starts again. */
function entryIn(text: string): Entry | null {
  try {
    const value = JSON.parse(text) as Partial<Entry> | null;
    return typeof value?.key === 'string' && typeof value.url === 'string' ? { key: value.key, url: value.url } : null;
  } catch {
    return null;
  }
}

async function removeOld(fs: NodeModules['fs/promises'], path: NodeModules['path'], root: string): Promise<void> {
  for (const name of await fs.readdir(root)) {
    // Other files in a folder that the caller chose are not ours.
    if (!OWN_NAME.test(name)) continue;
    const file = path.join(root, name);
    try {
      if (Date.now() - (await fs.stat(file)).mtimeMs > MAX_AGE_MS) await fs.rm(file, { force: true });
    } catch (error) {
      // Another process removed it in the meantime.
      if (!isMissing(error)) throw error;
    }
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function modules() {
  const [fs, path, os, crypto] = [
    nodeModule('fs/promises'),
    nodeModule('path'),
    nodeModule('os'),
    nodeModule('crypto'),
  ];
  if (!fs || !path || !os || !crypto) throw new ConfigurationError('this runtime has no files to keep uploads in');
  return { fs, path, os, crypto };
}
