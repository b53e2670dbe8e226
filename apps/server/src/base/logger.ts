import { type Logger, pino } from 'pino';
import sonicBoom from 'sonic-boom';

export type { Logger } from 'pino';

/** Formats the log for people; null unless stderr is a terminal. */
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
 * Logs the warnings of Node and of packages, which Node would write to stderr as plain text.
 * @see https://nodejs.org/api/process.html#event-warning
 */
export function logProcessWarnings(logger: Pick<Logger, 'warn'>): void {
  // Node's own listener writes them as text.
  process.removeAllListeners('warning');
  process.on('warning', (warning) => logger.warn({ err: warning }, warning.message));
}

/** Most bytes that wait to be written. Beyond it lines are dropped, so that the service keeps running. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;
/**
 * Stderr, written asynchronously. Its reader may be gone, its terminal closed or its disk full. Errors are ignored then, because there is
 * no place to report them, and the process must work and stop as usual. pino's own destination would retry its last write for ever.
 */
function stderrDestination() {
  const destination = new sonicBoom.SonicBoom({ fd: 2, sync: false, maxLength: MAX_WAITING_BYTES });
  // See above.
  destination.on('error', () => undefined);
  process.once('exit', () => {
    try {
      destination.flushSync();
    } catch {
      // See above.
    }
  });
  return destination;
}
