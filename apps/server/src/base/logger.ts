import { type Logger, pino } from 'pino';
import sonicBoom from 'sonic-boom';

export type { Logger } from 'pino';

/** Loaded where people read the log; null elsewhere. */
const pretty = process.stderr.isTTY ? (await import('pino-pretty')).default : null;

/**
 * The service's log, on stderr: JSON lines for programs, readable lines on a terminal. Credentials never reach it.
 * @param level pino's level names, or `silent`
 */
export function createLogger(level: string): Logger {
  const options = {
    level,
    base: { pid: process.pid },
    redact: { paths: ['req.headers.authorization', 'req.headers.cookie', '*.token'], censor: '[redacted]' },
  };
  const destination = stderrDestination();
  if (pretty === null) return pino(options, destination);
  return pino(options, pretty({ destination, colorize: true, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss' }));
}

/**
 * Has warnings of Node and of packages, which come as text otherwise, told as lines of the log.
 * @see https://nodejs.org/api/process.html#event-warning
 */
export function logProcessWarnings(logger: Pick<Logger, 'warn'>): void {
  // Node's own listener is the one that writes them as text.
  process.removeAllListeners('warning');
  process.on('warning', (warning) => logger.warn({ err: warning }, warning.message));
}

/** What waits to be written, at most: beyond it lines are lost, and the service goes on. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;
/**
 * Stderr, written behind. Its reader may be gone, its terminal closed or its disk full: then there is nobody to tell, and the process does
 * its work and ends as it is asked to. By pino's own destination it would try its last write for ever.
 */
function stderrDestination() {
  const destination = new sonicBoom.SonicBoom({ fd: 2, sync: false, maxLength: MAX_WAITING_BYTES });
  // As said above.
  destination.on('error', () => undefined);
  process.once('exit', () => {
    try {
      destination.flushSync();
    } catch {
      // As said above.
    }
  });
  return destination;
}
