import type { Redis } from 'ioredis';
import type { Logger } from '../../base/logger.ts';
import { ConfigError } from '../../base/settings.ts';
import { EngineAwayError } from './queue-engine.ts';
import type { RedisLocation } from './redis-location.ts';

/** How long a command may take, and a connection to be made. BullMQ's scripts take a few milliseconds. */
const ANSWER_MS = 2_000;
/** Between two attempts to connect, at most. */
const RECONNECT_MS = 1_000;
/** Between two lines of the log while an outage lasts. */
const REMINDER_MS = 60_000;

/** What no waiting mends: whom Redis does not let in, and what it does not have. */
const REFUSED = /\b(WRONGPASS|NOAUTH|NOPERM|ERR invalid password)\b|DB index/;
const NO_EVICTION = 'noeviction';

/** A Redis that may be away. */
export interface RedisClient {
  /** For BullMQ; commands fail at once while there is no connection. */
  client: Redis;
  /** Runs something that asks Redis. @throws EngineAwayError where it did not answer, or not do it; the log tells of that once a minute */
  ask<T>(run: () => Promise<T>): Promise<T>;
  /** Trouble that nobody asked for. */
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
 * Connects to a Redis, and keeps connecting wherever it is lost. One that does not answer yet keeps nobody from starting.
 * @throws ConfigError where the package is not installed, or Redis does not let us in
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
    // Nothing waits in this process for a Redis that is away: the rows have it, and who is told to wait would not be answered.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectTimeout: answerMs,
    commandTimeout: answerMs,
    // One that stands still is given up with its connection, so that what is asked next fails at once.
    socketTimeout: answerMs,
    retryStrategy: (times) => Math.min(100 * times, RECONNECT_MS),
  });
  /** When the outage that lasts was last told of. */
  let toldAt: number | null = null;
  let refusal: string | null = null;
  let closed = false;

  // Errors of commands hold their arguments, the password among them: only words are told.
  const trouble = ({ message: reason }: Error) => {
    if (closed || (toldAt !== null && performance.now() - toldAt < REMINDER_MS)) return;
    toldAt = performance.now();
    logger.warn({ reason, server: shown }, 'Redis does not answer; jobs are handed out when it does');
  };
  client.on('error', (error) => {
    if (REFUSED.test(error.message)) refusal = error.message;
    trouble(error);
  });
  client.on('ready', () => {
    if (toldAt !== null) logger.info({ server: shown }, 'Redis answers again');
    toldAt = null;
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

  /** It would throw away jobs, which come back, and locks, which is more work for all. */
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
        // BullMQ's own answers have a number.
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
