import { readFile } from 'node:fs/promises';
import { createEngine, defaultPresets, type Engine, type Preset, parsePresets } from '@mds/transcode';
import { type Config, ConfigError } from './config.ts';
import { type DataDir, openDataDir } from './data-dir.ts';
import type { Repositories } from './db/repositories.ts';
import { openSqliteRepositories } from './db/sqlite/open-repositories.ts';
import type { Logger } from './logger.ts';
import { createLocalObjectStore } from './storage/local-object-store.ts';
import type { ObjectStore } from './storage/object-store.ts';

/** What the service and its workers stand on. */
export interface Foundation {
  dataDir: DataDir;
  repositories: Repositories;
  store: ObjectStore;
  engine: Engine;
  presets: readonly Preset[];
}

/**
 * Opens the data folder, the database and the store, and makes the engine.
 * @throws ConfigError, DataDirError, DatabaseRefusedError: what the operator must see to; the data folder is let go of again
 */
export async function layFoundation(config: Config, logger: Logger): Promise<Foundation> {
  refuseWhatIsNotThereYet(config);
  const presets = config.presetsFile === null ? defaultPresets : await readPresets(config.presetsFile);
  const dataDir = await openDataDir(config.dataDir, { exclusive: config.roles.has('api') });
  try {
    const repositories = openSqliteRepositories(dataDir.databaseFile);
    const store = createLocalObjectStore({ root: dataDir.objectsDir });
    const engine = createEngine({
      limits: { maxPixels: config.maxPixels, maxFrames: config.maxFrames, maxDurationS: config.maxDurationS },
      concurrency: config.workerConcurrency,
      programs: { ffmpeg: config.ffmpegPath ?? undefined, ffprobe: config.ffprobePath ?? undefined },
      onChildExit: (exit) => {
        if (exit.reason !== 'recycled' && exit.reason !== 'stopped') {
          const { pid: childPid, ...how } = exit;
          logger.warn({ childPid, ...how }, 'an engine child died');
        }
      },
    });
    return { dataDir, repositories, store, engine, presets };
  } catch (error) {
    await dataDir.release();
    throw error;
  }
}

/** Settings of deployments beyond one machine, which this version cannot serve: better said than ignored. */
function refuseWhatIsNotThereYet(config: Config): void {
  const problems: string[] = [];
  if (config.databaseUrl !== null)
    problems.push('MDS_DATABASE_URL: this version keeps its database in the data folder only');
  if (config.storageUrl !== null)
    problems.push('MDS_STORAGE_URL: this version keeps its objects in the data folder only');
  if (problems.length > 0) throw new ConfigError(problems);
}

async function readPresets(file: string): Promise<readonly Preset[]> {
  let json: unknown;
  try {
    json = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new ConfigError([`MDS_PRESETS: ${file} cannot be read as JSON: ${(error as Error).message}`]);
  }
  try {
    return parsePresets(json);
  } catch (error) {
    throw new ConfigError([`MDS_PRESETS: ${file}: ${(error as Error).message}`]);
  }
}
