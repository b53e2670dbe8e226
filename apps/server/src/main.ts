import { createLogger, type Logger, logProcessWarnings } from './base/logger.ts';
import { composeService } from './compose-service.ts';
import { type Config, ConfigError, readConfig } from './config.ts';
import { DataDirError } from './data-dir.ts';
import { DatabaseRefusedError, DatabaseUnreachableError } from './db/database-refused-error.ts';
import { ListenError } from './listen.ts';
import { ObjectStorageError, StorageAheadError } from './storage/s3-failure.ts';

/** A stop that takes longer than this is cut short; orchestrators kill after about this time, too. */
const STOP_DEADLINE_MS = 25_000;
/**
 * How long a service that is asked to stop says so on `/readyz` and yet takes connections: those who balance load by other means,
 * such as a list of addresses that takes a moment to reach everybody, go on sending until they know. Who looks at `/readyz` every
 * few seconds needs no longer: connections that were refused are tried elsewhere.
 */
const LEAVING_GRACE_MS = 500;

const HELP = `The Media Delivery Service. Settings come from the environment; the most used:

  MDS_PORT, MDS_HOST     where it listens (8080, 127.0.0.1; port 0: any free one)
  MDS_PUBLIC_URL         base address that clients use
  MDS_DATA_DIR           where everything is kept (./data)
  MDS_CONTROL_TOKEN      the operator's token (else made, and kept in the data folder)
  MDS_REGION             this node's point of presence (fra1)
  MDS_DATABASE_URL       PostgreSQL, for several machines (else SQLite in the data folder)
  MDS_STORAGE_URL        s3://bucket/prefix, likewise (else the data folder)
  MDS_ROLES              api,worker,edge; edge alone with MDS_ORIGIN_URL is a further point of presence
  MDS_LOG_LEVEL          info
  FFMPEG_PATH, FFPROBE_PATH   programs for video and audio (else looked for)

All of them: docs/configuration.md. It prints one line of JSON when it listens, and stops on SIGTERM or Ctrl-C.

With the argument migrate it brings the database up to date, as each start does, says in one line of JSON which steps that took, and
ends; with migrate --check it only says which it would take. 'mds migrate' shows the same to people.
`;

/** Exit codes: 0 done, 1 failed, 2 the configuration, the data folder, the database or the storage needs the operator. */
async function main(argv: readonly string[]): Promise<void> {
  const wish = argv.join(' ');
  const isMigration = wish === 'migrate' || wish === 'migrate --check';
  if (wish !== '' && !isMigration) {
    const asked = wish === '--help' || wish === '-h';
    const text = asked ? HELP : `There are no arguments but migrate and --help: ${wish} means nothing here.\n${HELP}`;
    (asked ? process.stdout : process.stderr).write(text);
    process.exitCode = asked ? 0 : 2;
    return;
  }
  const config = readConfig(process.env);
  if (isMigration) {
    const { migrateDatabase } = await import('./migrate-database.ts');
    const report = await migrateDatabase(config, { checkOnly: wish !== 'migrate' });
    process.stdout.write(`${JSON.stringify(report)}\n`);
    return;
  }
  const logger = createLogger(config.logLevel);
  logProcessWarnings(logger);
  for (const name of config.unknownSettings) logger.warn({ setting: name }, 'there is no such setting');

  const onlyWorker = config.roles.size === 1 && config.roles.has('worker');
  const worker = onlyWorker ? await startWorker(config, logger) : null;
  const service = worker ?? (await composeService(config, logger));

  let stopping = false;
  const stop = (reason: string, exitCode: number, options: { graceMs?: number; crashed?: boolean } = {}) => {
    if (stopping) return;
    stopping = true;
    const deadline = setTimeout(() => {
      logger.error('the stop took too long and was cut short');
      process.exit(1);
    }, STOP_DEADLINE_MS);
    deadline.unref();
    logger.info({ reason }, 'stopping');
    service.stop(options).then(
      () => {
        logger.info('stopped');
        process.exit(exitCode);
      },
      (error: unknown) => {
        logger.error({ err: error }, 'the stop failed');
        process.exit(1);
      },
    );
  };
  service.storageKnown.catch((error: Error) => {
    logger.fatal({ err: error }, error.message);
    stop('the storage cannot be used', exitCodeOf(error));
  });
  process.on('SIGTERM', () => stop('SIGTERM', 0, { graceMs: LEAVING_GRACE_MS }));
  process.on('SIGHUP', () => stop('SIGHUP', 0));
  // Ctrl-C reaches the whole process group; a worker is told by its service, once that has stopped taking work.
  process.on('SIGINT', () => {
    if (worker === null || !process.send) stop('SIGINT', 0);
  });
  if (worker && process.send) {
    // Started by the service: its word wakes, and its end is this process's end, too.
    process.on('message', (message) => {
      if (typeof message === 'object' && message !== null && 'type' in message && message.type === 'wake')
        worker.wake();
    });
    process.on('disconnect', () => stop('the service is gone', 0));
    // It may have gone while this worker was starting; nobody would tell any more.
    if (!process.connected) stop('the service is gone', 0);
  }
  // What nobody caught leaves the process in a state that nobody knows: say so, and end in good order.
  process.on('uncaughtException', (error) => {
    logger.fatal({ err: error }, 'uncaught error');
    stop('uncaught error', 1, { crashed: true });
  });

  if (service.url !== null) process.stdout.write(`${JSON.stringify({ event: 'listening', url: service.url })}\n`);
}

/** A worker alone, for which nothing of the service is loaded: that would double the work of its start. */
async function startWorker(config: Config, logger: Logger) {
  const { composeWorker } = await import('./compose-worker.ts');
  return composeWorker(config, logger);
}

/** Of what is foreseen: 1 where to start again may help. */
function exitCodeOf(error: unknown): number {
  return error instanceof DatabaseUnreachableError || error instanceof StorageAheadError ? 1 : 2;
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const foreseen = [ConfigError, ListenError, DataDirError, DatabaseRefusedError, ObjectStorageError].some(
    (kind) => error instanceof kind,
  );
  if (foreseen) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exit(exitCodeOf(error));
  }
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  process.exit(1);
});
