import type { SqliteDatabase } from './database.ts';
import { type Transaction, WRITE } from './transaction.ts';

/** Has what is to be written at the same moment share one commit, whose sync is what writing costs. */
export interface GroupCommit {
  /**
   * Runs `work` in a transaction, together with whatever else is waiting: it is written whole or not at all, whatever becomes of the
   * others. It may be run twice, the first time in vain.
   * @returns what `work` returned, once that is on disk
   */
  write<T>(work: (tx: Transaction) => T): Promise<T>;
}

interface Waiting {
  /** Does the work inside a transaction. @returns what to do when that is committed */
  attempt(tx: Transaction): () => void;
  reject(reason: unknown): void;
}

/**
 * Makes a {@link GroupCommit}. A commit keeps the loop for a sync of the disk; what arrives meanwhile is looked at in the next turn, all
 * at once, and waits for one more sync instead of one each. Alone, nothing waits for company.
 */
export function createGroupCommit(db: SqliteDatabase): GroupCommit {
  let queue: Waiting[] = [];

  const alone = ({ attempt, reject }: Waiting) => {
    try {
      db.transaction(attempt, WRITE)();
    } catch (error) {
      reject(error);
    }
  };

  const together = (group: readonly Waiting[]) => {
    const outcomes = db.transaction(
      (tx) =>
        group.map(({ attempt, reject }) => {
          try {
            return tx.transaction(attempt);
          } catch (error) {
            // Some failures, a full disk among them, end the whole transaction, and not the savepoint alone.
            if (!db.$client.inTransaction) throw error;
            return () => reject(error);
          }
        }),
      WRITE,
    );
    for (const tell of outcomes) tell();
  };

  const flush = () => {
    const group = queue;
    queue = [];
    if (group.length > 1) {
      try {
        together(group);
        return;
      } catch {
        // Nothing was committed. Each hears of its own failure, and of nobody else's.
      }
    }
    for (const one of group) alone(one);
  };

  return {
    write<T>(work: (tx: Transaction) => T): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        if (queue.length === 0) setImmediate(flush);
        queue.push({
          attempt: (tx) => {
            const result = work(tx);
            return () => resolve(result);
          },
          reject,
        });
      });
    },
  };
}
