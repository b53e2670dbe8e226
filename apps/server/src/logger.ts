import { type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

export type { Logger } from 'pino';

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
  if (!process.stderr.isTTY) return pino(options, pino.destination({ fd: 2, sync: false }));
  return pino(
    options,
    pretty({ destination: 2, colorize: true, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss' }),
  );
}
