import type { Redis } from 'ioredis';
import type { Logger } from '../../base/logger.ts';
import { ConfigError } from '../../base/settings.ts';
import { EngineAwayError } from './queue-engine.ts';
import type { RedisLocation } from './redis-location.ts';

/** Time limit of a command, and of a connection attempt. BullMQ's scripts take a few milliseconds. */
const ANSWER_MS = 2_000;
/** Longest pause between two connection attempts. */
const RECONNECT_MS = 1_000;
/** Between two log lines during an outage. */
const REMINDER_MS = 60_000;

/** Errors that do not pass by waiting: refused access, missing commands. */
const REFUSED = /\b(WRONGPASS|NOAUTH|NOPERM|ERR invalid password)\b|DB index/;
const NO_EVICTION = 'noeviction';

/** A Redis that may be unavailable. */
export interface RedisClient {
  /** For BullMQ; commands fail at once if there is no connection. */
  client: Redis;
  /** Runs a call to Redis. @throws EngineAwayError if it did not answer or refused; the log reports that once a minute */
  ask<T>(run: () => Promise<T>): Promise<T>;
  /** Handles errors that no call waits for. */
  onError(error: Error): void;
  close(): void;
}

export interface RedisClientParts {
  location: RedisLocation;
  logger: Logger;
  answerMs?: number;
  /** Default: the package. */
  load?: () => Promise<typeof import('ioredis')>;
}

/**
 * Connects to a Redis, and reconnects whenever the connection is lost. A Redis that does not answer yet does not prevent the start.
 * @throws ConfigError if the package is not installed, or Redis refuses access
 */
export async function openRedisClient(parts: RedisClientParts): Promise<RedisClient> {
  const { location, logger, answerMs = ANSWER_MS, load = () => import('ioredis') } = parts;
  const { Redis } = await load().catch((cause: unknown) => {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    const problem = 'MDS_QUEUE_URL: Redis asks for the package ioredis, which is not installed.';
    throw new ConfigError([`${problem} Install it (npm install ioredis), or leave MDS_QUEUE_URL away.`], { cause });
  });
  const { shown, tls, ...where } = location;
  const client = new Redis({
    ...where,
    ...(tls ? { tls: {} } : {}),
    lazyConnect: true,
    // No command waits for an unavailable Redis: the rows have the jobs, and a waiting caller would get no answer.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectTimeout: answerMs,
    commandTimeout: answerMs,
    // A hanging connection is closed, so that the next command fails at once.
    socketTimeout: answerMs,
    retryStrategy: (times) => Math.min(100 * times, RECONNECT_MS),
  });
  /** When the current outage was last logged; null: none. */
  let loggedAt: number | null = null;
  let refusal: string | null = null;
  let closed = false;

  // Errors of commands hold their arguments, including the password: only messages are logged.
  const trouble = ({ message: reason }: Error) => {
    if (closed || (loggedAt !== null && performance.now() - loggedAt < REMINDER_MS)) return;
    loggedAt = performance.now();
    logger.warn({ reason, server: shown }, 'Redis does not answer; jobs are handed out when it does');
  };
  client.on('error', (error) => {
    if (REFUSED.test(error.message)) refusal = error.message;
    trouble(error);
  });
  client.on('ready', () => {
    if (loggedAt !== null) logger.info({ server: shown }, 'Redis answers again');
    loggedAt = null;
    void warnOfEviction();
  });
  await client.connect().catch(() => undefined);
  if (refusal !== null) {
    closed = true;
    client.disconnect();
    throw new ConfigError([
      `MDS_QUEUE_URL: the Redis at ${shown} refuses: ${refusal}. Correct the user, the password or the number of the database`,
    ]);
  }

  /** An eviction would drop jobs, which come back, and locks, which costs all processes more work. */
  async function warnOfEviction(): Promise<void> {
    const memory = await client.info('memory').catch(() => '');
    const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? NO_EVICTION;
    if (policy === NO_EVICTION) return;
    logger.warn(
      { policy, server: shown },
      'Redis may throw jobs away when its memory is full: set maxmemory-policy noeviction',
    );
  }

  return {
    client,

    async ask(run) {
      try {
        if (client.status !== 'ready') throw new Error('There is no connection.');
        return await run();
      } catch (error) {
        // BullMQ's own errors have a numeric code.
        if (typeof (error as { code?: unknown }).code === 'number') throw error;
        trouble(error as Error);
        throw new EngineAwayError((error as Error).message);
      }
    },

    onError: trouble,

    close() {
      closed = true;
      client.disconnect();
    },
  };
}
