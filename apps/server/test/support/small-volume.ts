import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system of a few MiB that tests can fill. */
export interface SmallVolume {
  /** False if this user may not mount. The reason is printed once. */
  available: boolean;
  use(work: (root: string) => Promise<void>): Promise<void>;
}

/** Prepares volumes of that size. Each `use` gets a new one and removes it. */
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
