import type { PieceFile } from './piece-file.ts';

/** Open files of objects, shared by their readers. */
export interface OpenPieces {
  /** The file under a key, held until `release`. `open` opens it if it is not open. */
  hold(key: string, open: () => Promise<PieceFile>): Promise<PieceFile>;
  release(file: PieceFile): void;
  /** The file, if it is open. It is not held. */
  peek(key: string): PieceFile | undefined;
  /** Withdraws files from further requests. Their holders may finish. */
  discardWhere(applies: (key: string) => boolean): void;
  /** Withdraws one file, if it is still this one. */
  discardFile(file: PieceFile): void;
  closeAll(): Promise<void>;
  readonly size: number;
}

interface Held {
  key: string;
  opening: Promise<PieceFile>;
  file: PieceFile | null;
  holders: number;
  discarded: boolean;
}

/** Makes {@link OpenPieces}. @param maxIdle number of files that stay open without a holder */
export function createOpenPieces(maxIdle: number, onCloseFailed: (error: unknown) => void): OpenPieces {
  const byKey = new Map<string, Held>();
  const byFile = new Map<PieceFile, Held>();
  /** Files without a holder, the least recently used first. */
  const idle = new Set<Held>();
  const closing = new Set<Promise<void>>();

  const end = (held: Held): void => {
    idle.delete(held);
    if (byKey.get(held.key) === held) byKey.delete(held.key);
    if (held.file === null) return;
    byFile.delete(held.file);
    const closed = held.file.close().catch(onCloseFailed);
    closing.add(closed);
    void closed.finally(() => closing.delete(closed));
  };

  const rest = (held: Held): void => {
    if (held.discarded) {
      end(held);
      return;
    }
    idle.add(held);
    for (const oldest of idle) {
      if (idle.size <= maxIdle) break;
      end(oldest);
    }
  };

  const discardHeld = (held: Held): void => {
    held.discarded = true;
    if (byKey.get(held.key) === held) byKey.delete(held.key);
    if (held.holders === 0) end(held);
  };

  return {
    async hold(key, open) {
      let held = byKey.get(key);
      if (held === undefined) {
        held = { key, opening: open(), file: null, holders: 0, discarded: false };
        byKey.set(key, held);
      }
      held.holders += 1;
      idle.delete(held);
      try {
        const file = held.file ?? (await held.opening);
        if (held.file === null) {
          held.file = file;
          byFile.set(file, held);
        }
        return file;
      } catch (error) {
        held.holders -= 1;
        if (byKey.get(key) === held) byKey.delete(key);
        throw error;
      }
    },

    release(file) {
      const held = byFile.get(file);
      if (held === undefined) return;
      held.holders -= 1;
      if (held.holders === 0) rest(held);
    },

    peek: (key) => byKey.get(key)?.file ?? undefined,

    discardWhere(applies) {
      for (const held of [...byKey.values()]) if (applies(held.key)) discardHeld(held);
    },

    discardFile(file) {
      const held = byFile.get(file);
      if (held && byKey.get(held.key) === held) discardHeld(held);
    },

    async closeAll() {
      for (const held of [...byKey.values()]) discardHeld(held);
      await Promise.all(closing);
    },

    get size() {
      return byKey.size;
    },
  };
}
