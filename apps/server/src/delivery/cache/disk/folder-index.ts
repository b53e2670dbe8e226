/** A file of the cache folder. */
export interface FolderEntry {
  mediaId: string;
  sha256: string;
  /** On the disk: of a sparse file, what was written. */
  bytes: number;
  touchedMs: number;
}

/** What lies in the cache folder in order of use, and which of it goes where there is no more room. Touches no file. */
export interface FolderIndex {
  get(key: string): FolderEntry | undefined;
  /** Whether an entry still has its place: it may have been let go of, and another one come under its key. */
  isPlaced(key: string, entry: FolderEntry): boolean;
  /** Puts an entry in, or one that is there where it belongs as it is used now. */
  use(key: string, entry: FolderEntry): void;
  /** Makes room for so many bytes more of an entry, and counts them. False: there is none, or it has lost its place. */
  grow(key: string, entry: FolderEntry, more: number): boolean;
  /** False: it was not there any more. */
  remove(key: string, entry: FolderEntry): boolean;
  /** Puts entries behind those that are there, the one that was used longest ago first; those whose keys are there are left out. */
  addOlder(found: Iterable<readonly [key: string, entry: FolderEntry]>): void;
  entries(): Iterable<[key: string, entry: FolderEntry]>;
  readonly bytes: number;
  readonly size: number;
  /** Entries that had to go for others. */
  readonly evictions: number;
}

/**
 * Makes a {@link FolderIndex}: least recently used goes first, but for what is asked for so often that it is answered from memory, which must
 * not go as if nobody wanted it.
 * @param options.maxBytes of all entries together
 * @param options.onEvict told of each entry that had to go
 * @param options.onSpare told of each that would have had to, were it not in memory
 */
export function createFolderIndex(options: {
  maxBytes: number;
  isInMemory: (sha256: string) => boolean;
  onEvict: (key: string, entry: FolderEntry) => void;
  onSpare: (key: string, entry: FolderEntry) => void;
}): FolderIndex {
  const { maxBytes, isInMemory, onEvict, onSpare } = options;
  /** The latest last. */
  let entries = new Map<string, FolderEntry>();
  let bytes = 0;
  let evictions = 0;

  const isPlaced = (key: string, entry: FolderEntry) => entries.get(key) === entry;

  const use = (key: string, entry: FolderEntry): void => {
    if (!entries.delete(key)) bytes += entry.bytes;
    entries.set(key, entry);
  };

  const remove = (key: string, entry: FolderEntry): boolean => {
    if (!isPlaced(key, entry)) return false;
    entries.delete(key);
    bytes -= entry.bytes;
    return true;
  };

  /** Lets go of what was used longest ago until so many bytes more fit. @param except is not let go of */
  const makeRoom = (more: number, except: FolderEntry | null): boolean => {
    if (bytes + more <= maxBytes) return true;
    for (const spareHot of [true, false]) {
      // What is spared goes to the end, where this walk would come to it again. No copy: there may be a million.
      let left = entries.size;
      for (const [key, entry] of entries) {
        if (bytes + more <= maxBytes) return true;
        if (left === 0) break;
        left -= 1;
        if (entry === except) continue;
        if (spareHot && isInMemory(entry.sha256)) {
          use(key, entry);
          onSpare(key, entry);
          continue;
        }
        remove(key, entry);
        evictions += 1;
        onEvict(key, entry);
      }
    }
    return bytes + more <= maxBytes;
  };

  return {
    get: (key) => entries.get(key),
    isPlaced,
    use,

    grow(key, entry, more) {
      if (!isPlaced(key, entry) || !makeRoom(more, entry)) return false;
      use(key, entry);
      entry.bytes += more;
      bytes += more;
      return true;
    },

    remove,

    addOlder(found) {
      const newer = entries;
      entries = new Map();
      for (const [key, entry] of found) {
        if (newer.has(key)) continue;
        entries.set(key, entry);
        bytes += entry.bytes;
      }
      for (const [key, entry] of newer) entries.set(key, entry);
      makeRoom(0, null);
    },

    entries: () => entries,

    get bytes() {
      return bytes;
    },
    get size() {
      return entries.size;
    },
    get evictions() {
      return evictions;
    },
  };
}
