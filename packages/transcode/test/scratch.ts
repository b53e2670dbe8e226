import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

/** A folder that is removed after the test file, with a way to put files into it. */
export function scratch() {
  const folder = mkdtempSync(join(tmpdir(), 'mds-transcode-test-'));
  let count = 0;
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return {
    folder,
    /** Writes a file; its name does not reveal its content. */
    file(bytes: Uint8Array | string, name = 'file.bin'): string {
      const path = join(folder, `${count++}-${name}`);
      writeFileSync(path, bytes);
      return path;
    },
    /** A folder that does not exist yet. */
    outDir: () => join(folder, `out-${count++}`),
  };
}
