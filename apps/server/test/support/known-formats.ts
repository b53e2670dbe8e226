import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, copyFile, mkdir, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { createLogger } from '../../src/base/logger.ts';
import type { Repositories } from '../../src/db/repositories.ts';
import { openDatabase } from '../../src/db/sqlite/database.ts';
import { openSqliteRepositories } from '../../src/db/sqlite/open-repositories.ts';
import { DATABASE_FILE } from '../../src/storage/data-dir.ts';

/** The folder of this run (scripts/run-folder.mjs); undefined without a run, as in a benchmark. */
const runFolder = process.env['MDS_TEST_RUN_FOLDER'];

/**
 * Copies the database of a first start into a new data folder: the tables, and the engine's proofs of its formats. A start on an empty
 * folder decodes a sample of each format, which takes about thirty runs of ffmpeg. The proofs are made once in a run, with this machine's
 * engine. A service with other programs makes its own.
 * @param settings of the service; nothing is copied if it has another database, or none
 */
export async function beginWithKnownFormats(dataDir: string, settings: Record<string, string>): Promise<void> {
  if (runFolder === undefined || settings['MDS_ROLES'] === 'edge' || 'MDS_DATABASE_URL' in settings) return;
  const template = join(runFolder, DATABASE_FILE);
  if (!(await exists(template))) await makeTemplate(runFolder, template);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  await copyFile(template, join(dataDir, DATABASE_FILE), constants.COPYFILE_EXCL).catch((error: unknown) => {
    // An earlier start has made it.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  });
}

/** Lets the engine of this machine prove its formats, and stores the proofs. */
export async function proveFormatsInto({ formatProofs }: Repositories): Promise<void> {
  // Most test files need neither.
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

/** Two processes may do so at once. Either result is valid. */
async function makeTemplate(folder: string, template: string): Promise<void> {
  const file = join(folder, randomUUID());
  // As private as that of the service.
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
