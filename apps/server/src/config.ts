import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { z } from 'zod';
import { allowRuleOf } from './fetches/address-filter.ts';
import { parseRedisUrl } from './jobs/bullmq/redis-location.ts';
import { resolveRegion, UnknownRegionError } from './regions/region-setting.ts';
import { parseS3Url } from './storage/s3-location.ts';

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;

/** A size in bytes: digits, or digits and a binary unit (`512MiB`, `10GiB`). */
const bytes = z.string().transform((text, context) => {
  const match = /^(\d{1,15})\s*(B|KiB|MiB|GiB|TiB)?$/i.exec(text.trim());
  const power = ['b', 'kib', 'mib', 'gib', 'tib'].indexOf(match?.[2]?.toLowerCase() ?? 'b');
  const value = Number(match?.[1]) * 1024 ** power;
  if (!match || !Number.isSafeInteger(value)) {
    context.addIssue({ code: 'custom', message: 'must be a number of bytes, such as 1048576 or 10GiB' });
    return z.NEVER;
  }
  return value;
});

const whole = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));

const allowList = z.string().transform((text, context) => {
  const entries = text.split(',').map((entry) => entry.trim());
  for (const entry of entries) {
    if (allowRuleOf(entry) !== null) continue;
    const message = `must be addresses, ranges such as 10.0.0.0/8, and host names without port, separated by commas; ${JSON.stringify(entry)} is none`;
    context.addIssue({ code: 'custom', message });
  }
  return entries;
});

const httpUrl = z
  .url({ protocol: /^https?$/, message: 'must be an http:// or https:// address' })
  .transform((url) => url.replace(/\/+$/, ''));

/** Its mistakes are told without the address, which has a password in it. */
const databaseUrl = z.string().refine((text) => {
  const { protocol, pathname } = URL.canParse(text) ? new URL(text) : { protocol: '', pathname: '' };
  return ['postgres:', 'postgresql:'].includes(protocol) && pathname.length > 1;
}, 'must be the address of a PostgreSQL database, postgres://user:password@host:5432/database; leave it out for the one in the data folder');

/** Its mistakes are told without the address, as well. */
const queueUrl = z.string().superRefine((text, context) => {
  try {
    parseRedisUrl(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    context.addIssue({ code: 'custom', message: `must be the address of a Redis: ${error.message}` });
  }
});

/** Its mistakes are told without the address, too: keys are put there by mistake. */
const storageUrl = z.string().transform((text, context) => {
  try {
    const { bucket, prefix } = parseS3Url(text);
    return `s3://${bucket}/${prefix}`.replace(/\/$/, '');
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = `must be a bucket, and perhaps a prefix in it: ${error.message} Keys are given by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  }
});

/** A city of the catalogue, or a place that is described. */
const region = z
  .string()
  .regex(
    /^[a-z]{2,8}[0-9](:[^:]{1,64}:[a-z]+-[a-z]+:[A-Z]{2})?$/,
    'must be a region code such as fra1, or code:City:area-direction:CC',
  )
  .transform((setting, context) => {
    try {
      resolveRegion(setting);
    } catch (error) {
      if (!(error instanceof UnknownRegionError)) throw error;
      context.addIssue({ code: 'custom', message: error.message });
    }
    return setting;
  });

const Role = z.enum(['api', 'worker', 'edge']);
export type Role = z.infer<typeof Role>;

const roles = z.string().transform((text, context) => {
  const names = text.split(',').map((name) => name.trim());
  const parsed = z.array(Role).min(1).safeParse(names);
  if (!parsed.success) {
    context.addIssue({ code: 'custom', message: 'must be one or more of api, worker, edge, separated by commas' });
    return z.NEVER;
  }
  return new Set(parsed.data);
});

/** Web origins (RFC 6454) as browsers send them: scheme, host and port, in lower case and nothing behind. */
const origins = z.string().transform((text, context) => {
  const names = text.split(',').map((name) => name.trim());
  const wrong = names.find((name) => !URL.canParse(name) || new URL(name).origin !== name || !/^https?:/.test(name));
  if (wrong !== undefined) {
    context.addIssue({
      code: 'custom',
      message: 'must be origins such as https://app.example.org, separated by commas',
    });
    return z.NEVER;
  }
  return names;
});

/** Who hands out jobs: the database itself, or BullMQ. */
const QUEUES = ['embedded', 'bullmq'] as const;

/** The environment that the service reads: the fixed names, and nothing else. */
const Environment = z.object({
  MDS_HOST: z.string().default('127.0.0.1'),
  MDS_PORT: whole(0, 65535).default(8080),
  MDS_PUBLIC_URL: httpUrl.optional(),
  MDS_DATA_DIR: z.string().default('./data'),
  MDS_DATABASE_URL: databaseUrl.optional(),
  MDS_STORAGE_URL: storageUrl.optional(),
  MDS_S3_ENDPOINT: httpUrl.optional(),
  MDS_QUEUE: z.enum(QUEUES, 'must be embedded or bullmq').default('embedded'),
  MDS_QUEUE_URL: queueUrl.optional(),
  MDS_CONTROL_TOKEN: z.string().min(16, 'must be at least 16 characters').optional(),
  MDS_REGION: region.default('fra1'),
  MDS_ROLES: roles.default(new Set(Role.options)),
  MDS_ORIGIN_URL: httpUrl.optional(),
  MDS_PRESETS: z.string().optional(),
  MDS_MAX_UPLOAD_BYTES: bytes.default(10 * GIB),
  MDS_MAX_QUEUED_JOBS: whole(1, 1_000_000_000).default(100_000),
  MDS_RATE_LIMIT: whole(0, 1_000_000_000).default(0),
  MDS_MAX_OPEN_UPLOADS: whole(1, 1_000_000).default(2000),
  MDS_UPLOAD_EXPIRY_S: whole(1, 31_536_000).default(86_400),
  MDS_UPLOAD_ORIGINS: origins.default([]),
  MDS_MAX_STAGING_BYTES: bytes.default(0),
  MDS_MIN_FREE_BYTES: bytes.default(64 * MIB),
  MDS_MAX_PIXELS: whole(1, 2 ** 40).default(268_435_456),
  MDS_MAX_FRAMES: whole(1, 1_000_000).default(1000),
  MDS_MAX_DURATION_S: whole(1, 31_536_000).default(4 * 3600),
  MDS_FETCH_ALLOW: allowList.default([]),
  MDS_FETCH_CONCURRENCY: whole(1, 256).default(4),
  MDS_FETCH_TIMEOUT_S: whole(1, 7 * 86_400).default(6 * 3600),
  MDS_CACHE_BYTES: bytes.default(10 * GIB),
  MDS_MEMORY_CACHE_BYTES: bytes.default(256 * MIB),
  MDS_WORKER_CONCURRENCY: whole(1, 256).optional(),
  MDS_RENDER_THREADS: whole(1, 256).optional(),
  FFMPEG_PATH: z.string().optional(),
  FFPROBE_PATH: z.string().optional(),
  MDS_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
});

/** The service's configuration, checked. Folders are absolute. */
export interface Config {
  host: string;
  port: number;
  /** Base address that clients use; null: the address that the service listens on. */
  publicUrl: string | null;
  dataDir: string;
  /** Of PostgreSQL, with its password; null: the SQLite file in the data folder. */
  databaseUrl: string | null;
  /** `s3://bucket/prefix`; null: the data folder. */
  storageUrl: string | null;
  /** Of an S3 server other than Amazon's. */
  s3Endpoint: string | null;
  queue: (typeof QUEUES)[number];
  /** Of the Redis that BullMQ keeps its copies of the jobs in, with its password; null: in PostgreSQL, beside the rows. */
  queueUrl: string | null;
  /** Null: read from, or generated into, `DATA_DIR/control-token`. */
  controlToken: string | null;
  region: string;
  roles: ReadonlySet<Role>;
  originUrl: string | null;
  presetsFile: string | null;
  maxUploadBytes: number;
  /** Media of one project that may wait to be processed. */
  maxQueuedJobs: number;
  /** Requests of the control API that a token may make in a minute; 0: any number. */
  rateLimit: number;
  /** Of resumable uploads that a token has open at once. */
  maxOpenUploads: number;
  /** How long an upload is kept after its last byte, in seconds. */
  uploadExpiryS: number;
  /** Origins whose pages may upload from a browser. */
  uploadOrigins: string[];
  /** Bound of all files on their way in; 0: none but the free space. */
  maxStagingBytes: number;
  /** What files on their way in must leave free on the volume. */
  minFreeBytes: number;
  maxPixels: number;
  maxFrames: number;
  maxDurationS: number;
  /** Ranges, addresses and names that may be fetched from though they are not public. */
  fetchAllow: readonly string[];
  fetchConcurrency: number;
  fetchTimeoutS: number;
  cacheBytes: number;
  memoryCacheBytes: number;
  workerConcurrency: number;
  /** Of one picture; null: as many as there are cores. */
  renderThreads: number | null;
  /** Absolute paths of the programs for video and audio; null: looked for. */
  ffmpegPath: string | null;
  ffprobePath: string | null;
  logLevel: string;
  /** `MDS_` variables that mean nothing here: typing errors, most likely, to be warned of. */
  unknownSettings: string[];
}

/** Every problem of a configuration at once, one line each. */
export class ConfigError extends Error {
  readonly problems: string[];
  constructor(problems: string[], options?: ErrorOptions) {
    super(`The configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`, options);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/**
 * Reads the configuration from an environment. A variable that is set to nothing counts as not set.
 * @throws ConfigError that lists every problem
 */
export function readConfig(environment: Record<string, string | undefined>): Config {
  const set = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const parsed = Environment.safeParse(set);
  if (!parsed.success) {
    throw new ConfigError(parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`));
  }
  const env = parsed.data;
  const problems = contradictionsIn(env);
  if (problems.length > 0) throw new ConfigError(problems);
  const dataDir = resolve(env.MDS_DATA_DIR);
  return {
    host: env.MDS_HOST,
    port: env.MDS_PORT,
    publicUrl: env.MDS_PUBLIC_URL ?? null,
    dataDir,
    databaseUrl: env.MDS_DATABASE_URL ?? null,
    storageUrl: env.MDS_STORAGE_URL ?? null,
    s3Endpoint: env.MDS_S3_ENDPOINT ?? null,
    queue: env.MDS_QUEUE,
    queueUrl: env.MDS_QUEUE_URL ?? null,
    controlToken: env.MDS_CONTROL_TOKEN ?? null,
    region: env.MDS_REGION,
    roles: env.MDS_ROLES,
    originUrl: env.MDS_ORIGIN_URL ?? null,
    presetsFile: env.MDS_PRESETS === undefined ? null : resolve(env.MDS_PRESETS),
    maxUploadBytes: env.MDS_MAX_UPLOAD_BYTES,
    maxQueuedJobs: env.MDS_MAX_QUEUED_JOBS,
    rateLimit: env.MDS_RATE_LIMIT,
    maxOpenUploads: env.MDS_MAX_OPEN_UPLOADS,
    uploadExpiryS: env.MDS_UPLOAD_EXPIRY_S,
    uploadOrigins: env.MDS_UPLOAD_ORIGINS,
    maxStagingBytes: env.MDS_MAX_STAGING_BYTES,
    minFreeBytes: env.MDS_MIN_FREE_BYTES,
    maxPixels: env.MDS_MAX_PIXELS,
    maxFrames: env.MDS_MAX_FRAMES,
    maxDurationS: env.MDS_MAX_DURATION_S,
    fetchAllow: env.MDS_FETCH_ALLOW,
    fetchConcurrency: env.MDS_FETCH_CONCURRENCY,
    fetchTimeoutS: env.MDS_FETCH_TIMEOUT_S,
    cacheBytes: env.MDS_CACHE_BYTES,
    memoryCacheBytes: env.MDS_MEMORY_CACHE_BYTES,
    workerConcurrency: env.MDS_WORKER_CONCURRENCY ?? Math.max(1, availableParallelism() - 1),
    renderThreads: env.MDS_RENDER_THREADS ?? null,
    ffmpegPath: programPath(env.FFMPEG_PATH),
    ffprobePath: programPath(env.FFPROBE_PATH),
    logLevel: env.MDS_LOG_LEVEL,
    unknownSettings: Object.keys(set).filter(
      (name) => name.startsWith('MDS_') && !(name in Environment.shape) && !FOREIGN.has(name),
    ),
  };
}

/** What each setting allows and all together do not. */
function contradictionsIn(env: z.infer<typeof Environment>): string[] {
  const roles = env.MDS_ROLES;
  const problems: string[] = [];
  if (roles.has('api') && env.MDS_ORIGIN_URL !== undefined) {
    problems.push(
      'MDS_ORIGIN_URL: a service with the role api is an origin itself. Leave this out, or set MDS_ROLES=edge for a point of presence of that origin',
    );
  }
  if (env.MDS_QUEUE === 'bullmq' && env.MDS_DATABASE_URL === undefined) {
    problems.push(
      'MDS_QUEUE: bullmq hands out jobs whose rows are in PostgreSQL. Set MDS_DATABASE_URL as well, or leave this out for the queue in the data folder',
    );
  }
  if (env.MDS_QUEUE_URL !== undefined && env.MDS_QUEUE !== 'bullmq') {
    problems.push(
      'MDS_QUEUE_URL: says where BullMQ keeps its copies of the jobs, and embedded is a queue without BullMQ. Set MDS_QUEUE=bullmq as well, or leave this out',
    );
  }
  if (env.MDS_S3_ENDPOINT !== undefined && env.MDS_STORAGE_URL === undefined) {
    problems.push(
      'MDS_S3_ENDPOINT: says where an S3 server is, and not which bucket to use. Set MDS_STORAGE_URL to s3://bucket/prefix, or leave this out',
    );
  }
  if (roles.has('edge') && !roles.has('api')) {
    for (const name of ['MDS_DATABASE_URL', 'MDS_STORAGE_URL', 'MDS_QUEUE', 'MDS_QUEUE_URL'] as const) {
      if (env[name] === undefined || env[name] === 'embedded') continue;
      problems.push(
        `${name}: the role edge without api asks its origin for everything, and should not hold the keys to its data. Leave this out`,
      );
    }
    if (roles.has('worker')) {
      problems.push(
        'MDS_ROLES: a worker needs the data folder of an api, which an edge alone does not have. Run edge and worker as two processes',
      );
    }
    if (env.MDS_ORIGIN_URL === undefined) {
      problems.push(
        'MDS_ORIGIN_URL: the role edge without api needs the address of the service that it belongs to, such as https://media.example.org',
      );
    }
    if (env.MDS_CONTROL_TOKEN === undefined) {
      problems.push(
        'MDS_CONTROL_TOKEN: the role edge without api needs an operator token of its origin: the one in control-token of the data folder there',
      );
    }
  }
  return problems;
}

/** Runs have working folders of their own, so that a path must hold anywhere. */
function programPath(path: string | undefined): string | null {
  return path === undefined ? null : resolve(path);
}

/** Names that the client and the command line read. */
const FOREIGN = new Set(['MDS_URL', 'MDS_TOKEN', 'MDS_TARGET_DATABASE_URL']);

/** The environment that {@link readConfig} reads back to the same configuration: what a worker process is started with. */
export function environmentOf(config: Config): Record<string, string> {
  const settings: Record<string, string | null> = {
    MDS_HOST: config.host,
    MDS_PORT: String(config.port),
    MDS_PUBLIC_URL: config.publicUrl,
    MDS_DATA_DIR: config.dataDir,
    MDS_DATABASE_URL: config.databaseUrl,
    MDS_STORAGE_URL: config.storageUrl,
    MDS_S3_ENDPOINT: config.s3Endpoint,
    MDS_QUEUE: config.queue,
    MDS_QUEUE_URL: config.queueUrl,
    MDS_REGION: config.region,
    MDS_ROLES: [...config.roles].join(','),
    MDS_ORIGIN_URL: config.originUrl,
    MDS_PRESETS: config.presetsFile,
    MDS_MAX_UPLOAD_BYTES: String(config.maxUploadBytes),
    MDS_MAX_QUEUED_JOBS: String(config.maxQueuedJobs),
    MDS_RATE_LIMIT: String(config.rateLimit),
    MDS_MAX_OPEN_UPLOADS: String(config.maxOpenUploads),
    MDS_UPLOAD_EXPIRY_S: String(config.uploadExpiryS),
    MDS_UPLOAD_ORIGINS: config.uploadOrigins.length === 0 ? null : config.uploadOrigins.join(','),
    MDS_MAX_STAGING_BYTES: String(config.maxStagingBytes),
    MDS_MIN_FREE_BYTES: String(config.minFreeBytes),
    MDS_MAX_PIXELS: String(config.maxPixels),
    MDS_MAX_FRAMES: String(config.maxFrames),
    MDS_MAX_DURATION_S: String(config.maxDurationS),
    MDS_FETCH_ALLOW: config.fetchAllow.length === 0 ? null : config.fetchAllow.join(','),
    MDS_FETCH_CONCURRENCY: String(config.fetchConcurrency),
    MDS_FETCH_TIMEOUT_S: String(config.fetchTimeoutS),
    MDS_CACHE_BYTES: String(config.cacheBytes),
    MDS_MEMORY_CACHE_BYTES: String(config.memoryCacheBytes),
    MDS_WORKER_CONCURRENCY: String(config.workerConcurrency),
    MDS_RENDER_THREADS: config.renderThreads === null ? null : String(config.renderThreads),
    FFMPEG_PATH: config.ffmpegPath,
    FFPROBE_PATH: config.ffprobePath,
    MDS_LOG_LEVEL: config.logLevel,
  };
  return Object.fromEntries(Object.entries(settings).filter((entry): entry is [string, string] => entry[1] !== null));
}

/** What no answer and no log may show, and what is shown instead. The token is not among them. */
export function secretsOf({ databaseUrl, queueUrl }: Config): Record<string, string> {
  const urls = [
    ['DATABASE', databaseUrl],
    ['QUEUE', queueUrl],
  ] as const;
  return Object.fromEntries(
    urls.flatMap(([shown, url]) => {
      if (url === null) return [];
      const { password } = new URL(url);
      const hidden = password === '' ? [] : [password, decodeURIComponent(password)];
      return [[url, shown], ...hidden.map((secret) => [secret, 'PASSWORD'])];
    }),
  );
}

/** The environment of a worker process: this process's, with the configuration as it was read, and without the token. */
export function workerEnvironment(config: Config): NodeJS.ProcessEnv {
  const { MDS_CONTROL_TOKEN: _secret, ...inherited } = process.env;
  return { ...inherited, ...environmentOf(config) };
}
