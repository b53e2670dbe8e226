import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system of a few MiB, to be filled for real. */
export interface SmallVolume {
  /** Mounting needs the right to: false where this user has none. The reason is printed once. */
  available: boolean;
  use(work: (root: string) => Promise<void>): Promise<void>;
}

/** Prepares volumes of that size; each `use` gets a fresh one that is gone afterwards. */
export function smallVolume({ mebibytes }: { mebibytes: number }): SmallVolume {
  const mount = () => {
    const root = mkdtempSync(join(tmpdir(), 'mds-volume-'));
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m,mode=0700`, 'mds-test', root], { stdio: 'pipe' });
    } catch (error) {
      rmdirSync(root);
      throw error;
    }
    return root;
  };
  const unmount = (root: string) => {
    execFileSync('umount', ['--lazy', root], { stdio: 'pipe' });
    rmdirSync(root);
  };

  let available = true;
  try {
    unmount(mount());
  } catch {
    available = false;
    console.warn('Skipping the tests that fill a disk or make it read-only: this user may not mount a small volume.');
  }
  return {
    available,
    async use(work) {
      const root = mount();
      try {
        await work(root);
      } finally {
        unmount(root);
      }
    },
  };
}
