import { createLogger, type Logger, logProcessWarnings } from './base/logger.ts';
import { composeService } from './compose-service.ts';
import { readConfig } from './config.ts';
import { reportFailedStart, stopWithProcess } from './run-process.ts';

/**
 * A service that is asked to stop still takes connections for this long, while `/readyz` already reports it. Load balancers that learn of
 * it more slowly, for example from a list of addresses, go on sending until then. Refused connections are retried elsewhere.
 */
const LEAVING_GRACE_MS = 500;

const HELP = `The Media Delivery Service. Settings come from the environment; the most used:

  MDS_PORT, MDS_HOST     where it listens (8080, 127.0.0.1; port 0: any free one)
  MDS_PUBLIC_URL         base address that clients use
  MDS_DATA_DIR           folder of all data (./data)
  MDS_CONTROL_TOKEN      the operator's token (else generated, in the data folder)
  MDS_REGION             this node's point of presence (fra1)
  MDS_DATABASE_URL       PostgreSQL, for several machines (else SQLite in the data folder)
  MDS_STORAGE_URL        s3://bucket/prefix, for several machines (else the data folder)
  MDS_ROLES              api,worker,edge; edge alone with MDS_ORIGIN_URL is a further point of presence
  MDS_LOG_LEVEL          info
  FFMPEG_PATH, FFPROBE_PATH   programs for video and audio (else searched for)

All settings: docs/configuration.md. The service prints one line of JSON when it listens, and stops on SIGTERM or Ctrl-C.

With the argument migrate it migrates the database, as each start does, prints the steps as one line of JSON, and ends. With
migrate --check it only prints the steps that are pending. 'mds migrate' shows the same to people.
`;

/** Exit codes: 0 done, 1 failed, 2 the operator must change the configuration, the data folder, the database or the storage. */
async function main(argv: readonly string[]): Promise<void> {
  const command = argv.join(' ');
  const isMigration = command === 'migrate' || command === 'migrate --check';
  if (command !== '' && !isMigration) {
    const isHelp = command === '--help' || command === '-h';
    const text = isHelp
      ? HELP
      : `There are no arguments but migrate and --help: ${command} means nothing here.\n${HELP}`;
    (isHelp ? process.stdout : process.stderr).write(text);
    process.exitCode = isHelp ? 0 : 2;
    return;
  }
  const config = readConfig(process.env);
  if (isMigration) {
    const { migrateDatabase } = await import('./migrate-database.ts');
    const report = await migrateDatabase(config, { checkOnly: command !== 'migrate' });
    process.stdout.write(`${JSON.stringify(report)}\n`);
    return;
  }
  const logger = createLogger(config.logLevel);
  logProcessWarnings(logger);
  for (const name of config.unknownSettings) logger.warn({ setting: name }, 'there is no such setting');

  if (config.roles.every((role) => role === 'worker')) {
    const { composeWorker } = await import('./compose-worker.ts');
    stopWithSignals(await composeWorker(config, logger), logger);
    return;
  }
  const service = await composeService(config, logger);
  stopWithSignals(service, logger);
  // A reader of this line may send a signal at once.
  process.stdout.write(`${JSON.stringify({ event: 'listening', url: service.url })}\n`);
  service.startInBackground();
}

function stopWithSignals(running: Parameters<typeof stopWithProcess>[0], logger: Logger): void {
  const stop = stopWithProcess(running, logger);
  process.on('SIGTERM', () => stop('SIGTERM', 0, { graceMs: LEAVING_GRACE_MS }));
  process.on('SIGHUP', () => stop('SIGHUP', 0));
  process.on('SIGINT', () => stop('SIGINT', 0));
}

main(process.argv.slice(2)).catch(reportFailedStart);
