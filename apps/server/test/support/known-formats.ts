import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, copyFile, mkdir, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { createLogger } from '../../src/base/logger.ts';
import type { Repositories } from '../../src/db/repositories.ts';
import { openDatabase } from '../../src/db/sqlite/database.ts';
import { openSqliteRepositories } from '../../src/db/sqlite/open-repositories.ts';
import { DATABASE_FILE } from '../../src/storage/data-dir.ts';

/** Of this run (`run-folder-setup.ts`); undefined in a process that is of none, such as a benchmark. */
const runFolder = process.env['MDS_TEST_RUN_FOLDER'];

/**
 * Lets a new data folder begin with the database that a first start leaves: its tables, and the engine's proofs of its formats. A start on
 * an empty folder decodes a sample of each format, which is some thirty runs of ffmpeg and as much work as many a test itself. The proofs
 * are those of this machine's engine, made once in a run; a service with other programs, whose proofs these are not, makes its own.
 * @param settings of the service; one that keeps its database elsewhere, or none, begins with nothing
 */
export async function beginWithKnownFormats(dataDir: string, settings: Record<string, string>): Promise<void> {
  if (runFolder === undefined || settings['MDS_ROLES'] === 'edge' || 'MDS_DATABASE_URL' in settings) return;
  const template = join(runFolder, DATABASE_FILE);
  if (!(await exists(template))) await makeTemplate(runFolder, template);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  await copyFile(template, join(dataDir, DATABASE_FILE), constants.COPYFILE_EXCL).catch((error: unknown) => {
    // It was begun before.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  });
}

/** Has the engine of this machine prove its formats, and keeps what it found. */
export async function proveFormatsInto({ formatProofs }: Repositories): Promise<void> {
  // Most test files find them made.
  const { createEngine } = await import('@mds/transcode');
  const { createFormatCatalogue } = await import('../../src/processing/format-catalogue.ts');
  const engine = createEngine();
  const logger = createLogger('silent');
  const catalogue = createFormatCatalogue({ engine, proofs: formatProofs, logger, waitMs: 60_000 });
  try {
    await catalogue.start();
    await catalogue.accepted();
  } finally {
    await catalogue.stop();
    await engine.stop();
  }
}

/** Two processes may do so at once: the later one's is as good. */
async function makeTemplate(folder: string, template: string): Promise<void> {
  const file = join(folder, randomUUID());
  // As private as the service makes its own.
  await (await open(file, 'a', 0o600)).close();
  const repositories = openSqliteRepositories(file);
  try {
    await proveFormatsInto(repositories);
  } finally {
    await repositories.close();
  }
  // Each copy is of a deployment of its own.
  const { $client: database } = openDatabase(file);
  database.exec('DELETE FROM deployments');
  database.close();
  await rename(file, template);
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
