/** A file of the cache folder. */
export interface FolderEntry {
  mediaId: string;
  sha256: string;
  /** Size on the disk: for a sparse file, the written bytes. */
  bytes: number;
  touchedMs: number;
}

/** The files of the cache folder in order of use, and which of them to evict. Touches no file. */
export interface FolderIndex {
  get(key: string): FolderEntry | undefined;
  /** Whether an entry is still in the index. It may have been evicted, and its key reused by another one. */
  isPlaced(key: string, entry: FolderEntry): boolean;
  /** Adds an entry, or moves it to the end as the most recently used one. */
  use(key: string, entry: FolderEntry): void;
  /** Makes room for this many bytes more of an entry, and counts them. False: there is none, or the entry is not in the index. */
  grow(key: string, entry: FolderEntry, more: number): boolean;
  /** False: it was no longer there. */
  remove(key: string, entry: FolderEntry): boolean;
  /** Adds older entries, the least recently used first. Entries whose keys are there already are left out. */
  addOlder(found: Iterable<readonly [key: string, entry: FolderEntry]>): void;
  entries(): Iterable<[key: string, entry: FolderEntry]>;
  readonly bytes: number;
  readonly size: number;
  /** Entries removed to make room for others. */
  readonly evictions: number;
}

/**
 * Makes a {@link FolderIndex}. The least recently used entry is evicted first. Entries in memory are spared, because their requests
 * are answered from memory and do not count as uses here.
 * @param options.maxBytes size of all entries together
 * @param options.onEvict called for each evicted entry
 * @param options.onSpare called for each entry that was spared because it is in memory
 */
export function createFolderIndex(options: {
  maxBytes: number;
  isInMemory: (sha256: string) => boolean;
  onEvict: (key: string, entry: FolderEntry) => void;
  onSpare: (key: string, entry: FolderEntry) => void;
}): FolderIndex {
  const { maxBytes, isInMemory, onEvict, onSpare } = options;
  /** The most recently used last. */
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

  /** Evicts the least recently used entries until this many bytes more fit. @param except is not evicted */
  const makeRoom = (more: number, except: FolderEntry | null): boolean => {
    if (bytes + more <= maxBytes) return true;
    for (const spareHot of [true, false]) {
      // Spared entries move to the end, and this walk must not reach them again. A copy may need a million entries.
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
