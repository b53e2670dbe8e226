// The worker of a service, as a process of its own: the service sends its configuration, wakes it, and stops it.
import { createLogger, logProcessWarnings } from './base/logger.ts';
import { composeWorker } from './compose-worker.ts';
import type { Config } from './config.ts';
import { reportFailedStart, type Stop, stopWithProcess } from './run-process.ts';

/** Messages of the service. */
type Message = { type: 'config'; config: Config } | { type: 'wake' };

async function main(): Promise<void> {
  const config = await receiveConfig();
  const logger = createLogger(config.logLevel);
  logProcessWarnings(logger);
  const worker = await composeWorker(config, logger);
  const stop: Stop = stopWithProcess(worker, logger);
  process.on('SIGTERM', () => stop('SIGTERM', 0));
  process.on('SIGHUP', () => stop('SIGHUP', 0));
  // Ctrl-C reaches the whole process group. The service stops its worker after it has stopped taking work.
  process.on('SIGINT', () => undefined);
  process.on('message', (message: Message) => {
    if (message.type === 'wake') worker.wake();
  });
  process.on('disconnect', () => stop('the service is gone', 0));
  // The event was missed if the service exited during the start.
  if (!process.connected) stop('the service is gone', 0);
}

/** The first message. */
function receiveConfig(): Promise<Config> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(new Error('the service exited before it sent the configuration'));
    process.once('disconnect', leave);
    process.once('message', (message: Message) => {
      process.removeListener('disconnect', leave);
      if (message.type === 'config') resolve(message.config);
      else reject(new Error(`the service sent ${message.type} before the configuration`));
    });
  });
}

main().catch(reportFailedStart);
