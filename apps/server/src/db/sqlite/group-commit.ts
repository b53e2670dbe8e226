import type { Database } from './driver.ts';

/** Lets writes that wait at the same moment share one commit, because most of the cost of a write is the sync. */
export interface GroupCommit {
  /**
   * Runs `work` in a transaction, together with all other waiting work. It takes effect completely or not at all,
   * independently of the others. It may run twice, if the first run is rolled back. It must only wait for this
   * connection.
   * @returns what `work` returned, after the commit
   */
  write<T>(work: () => T | Promise<T>, options?: CommitOptions<T>): Promise<T>;
  /** Resolves when nothing waits or runs. */
  idle(): Promise<void>;
}

export interface CommitOptions<T> {
  /** Called at the commit, before any other code can see its writes. */
  onCommit?(result: T): void;
  /** False: the commit does not wait for the disk, unless that of another write of the group does. */
  isSynced?: boolean;
  /** Starts at once, with all waiting work. Otherwise it waits for work that arrives in this turn of the event loop. */
  isUrgent?: boolean;
}

/** `synchronous`: the log is not synced at every commit. */
const NORMAL = 1;

interface Waiting {
  /** Does the work inside a transaction. @returns the action after its commit */
  attempt(): Promise<() => void>;
  reject(reason: unknown): void;
  isSynced: boolean;
  isUrgent: boolean;
}

/**
 * Creates a {@link GroupCommit} over a connection that nothing else writes with. A commit blocks the event loop while the disk syncs.
 * All work that arrives meanwhile runs together in the next turn, and waits for one more sync instead of one each.
 */
export function createGroupCommit(client: Database): GroupCommit {
  const statements = new Map<string, { run(): unknown }>();
  const run = (text: string) => {
    const statement = statements.get(text) ?? client.prepare(text);
    statements.set(text, statement);
    statement.run();
  };
  const synced = client.pragma('synchronous', { simple: true }) as number;
  let queue: Waiting[] = [];
  let isRunning = false;
  let onIdle: (() => void)[] = [];

  /** Immediate: takes the write lock at once, so that a transaction never fails half-way for being late. */
  const transaction = async (work: () => Promise<() => void>): Promise<void> => {
    run('BEGIN IMMEDIATE');
    try {
      const settle = await work();
      run('COMMIT');
      // At once: no code may read the committed rows before `onCommit` was called.
      settle();
    } catch (error) {
      if (client.inTransaction) run('ROLLBACK');
      throw error;
    }
  };

  const savepoint = async ({ attempt, reject }: Waiting): Promise<() => void> => {
    run('SAVEPOINT one');
    try {
      const settle = await attempt();
      run('RELEASE one');
      return settle;
    } catch (error) {
      // Some failures, a full disk among them, end the whole transaction, and not only the savepoint.
      if (!client.inTransaction) throw error;
      run('ROLLBACK TO one');
      run('RELEASE one');
      return () => reject(error);
    }
  };

  const together = (group: readonly Waiting[]): Promise<void> =>
    transaction(async () => {
      const settles: (() => void)[] = [];
      for (const one of group) settles.push(await savepoint(one));
      return () => {
        for (const settle of settles) settle();
      };
    });

  const alone = async ({ attempt, reject }: Waiting): Promise<void> => {
    try {
      await transaction(attempt);
    } catch (error) {
      reject(error);
    }
  };

  const commit = async (group: readonly Waiting[]): Promise<void> => {
    if (group.length > 1) {
      try {
        return await together(group);
      } catch {
        // Nothing was committed. Each write gets its own failure only.
      }
    }
    for (const one of group) await alone(one);
  };

  const commitSynced = async (group: readonly Waiting[]): Promise<void> => {
    if (synced <= NORMAL || group.some(({ isSynced }) => isSynced)) return commit(group);
    client.pragma(`synchronous = ${NORMAL}`);
    try {
      await commit(group);
    } finally {
      client.pragma(`synchronous = ${synced}`);
    }
  };

  const flush = async (): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    do {
      const group = queue;
      queue = [];
      try {
        await commitSynced(group);
      } catch (error) {
        // Whatever was settled before stays as it is.
        for (const { reject } of group) reject(error);
      }
    } while (queue.some(({ isUrgent }) => isUrgent));
    isRunning = false;
    if (queue.length > 0) return void setImmediate(flush);
    const listeners = onIdle;
    onIdle = [];
    for (const listener of listeners) listener();
  };

  return {
    write: (work, { onCommit, isSynced = true, isUrgent = false } = {}) =>
      new Promise((resolve, reject) => {
        const attempt = async () => {
          const result = await work();
          return () => {
            onCommit?.(result);
            resolve(result);
          };
        };
        queue.push({ attempt, reject, isSynced, isUrgent });
        if (isUrgent) void flush();
        else if (queue.length === 1) setImmediate(flush);
      }),

    async idle() {
      if (queue.length > 0 || isRunning) await new Promise<void>((resolve) => onIdle.push(resolve));
    },
  };
}
