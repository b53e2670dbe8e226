import { readdir, readFile } from 'node:fs/promises';

/** Process ids of the children of a process (Linux); empty if it has ended. */
export async function childrenOf(pid: number): Promise<number[]> {
  const threads = await orNothing(readdir(`/proc/${pid}/task`));
  const lists = await Promise.all(
    (threads ?? []).map((thread) => orNothing(readFile(`/proc/${pid}/task/${thread}/children`, 'utf8'))),
  );
  return lists.flatMap((list) => (list ?? '').split(' ').filter(Boolean).map(Number));
}

/** Null if the process or thread has ended meanwhile. */
async function orNothing<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}
