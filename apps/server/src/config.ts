import { resolve } from 'node:path';
import { z } from 'zod';
import {
  ConfigError,
  commaList,
  httpUrl,
  optional,
  readSettings,
  type SettingsOf,
  setting,
  wholeNumber,
} from './base/settings.ts';
import { controlApiSettings } from './control-api/settings.ts';
import { databaseSettings } from './db/settings.ts';
import { deliverySettings } from './delivery/settings.ts';
import { edgeSettings } from './edge/settings.ts';
import { fetchSettings } from './fetches/settings.ts';
import { ingestSettings } from './ingest/settings.ts';
import { jobSettings, queueConflicts } from './jobs/settings.ts';
import { processingSettings } from './processing/settings.ts';
import { regionSettings } from './regions/settings.ts';
import { storageConflicts, storageSettings } from './storage/settings.ts';
import { uploadSettings } from './uploads/settings.ts';

const ROLES = ['api', 'worker', 'edge'] as const;
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** The settings of the process itself. */
const processSettings = {
  host: setting('MDS_HOST', z.string().default('127.0.0.1')),
  port: setting('MDS_PORT', wholeNumber(0, 65535).default(8080)),
  /** Base address that clients use; null: the address that the service listens on. */
  publicUrl: setting('MDS_PUBLIC_URL', optional(httpUrl)),
  /** Absolute. */
  dataDir: setting(
    'MDS_DATA_DIR',
    z
      .string()
      .default('./data')
      .transform((path) => resolve(path)),
  ),
  /** Null: read from, or generated into, `DATA_DIR/control-token`. */
  controlToken: setting('MDS_CONTROL_TOKEN', optional(z.string().min(16, 'must be at least 16 characters'))),
  roles: setting(
    'MDS_ROLES',
    commaList(z.enum(ROLES, 'must be one or more of api, worker, edge, separated by commas')).default(ROLES),
  ),
  logLevel: setting('MDS_LOG_LEVEL', z.enum(LOG_LEVELS).default('info')),
};

const SETTINGS = {
  ...regionSettings,
  ...processSettings,
  ...databaseSettings,
  ...storageSettings,
  ...jobSettings,
  ...edgeSettings,
  ...processingSettings,
  ...ingestSettings,
  ...uploadSettings,
  ...fetchSettings,
  ...deliverySettings,
  ...controlApiSettings,
};
const NAMES: ReadonlySet<string> = new Set(Object.values(SETTINGS).map(({ name }) => name));

/** `MDS_` variables that the client and the command line read. */
const FOREIGN = new Set(['MDS_URL', 'MDS_TOKEN', 'MDS_TARGET_DATABASE_URL']);

/** The service's configuration, checked. It can be sent as JSON. */
export type Config = SettingsOf<typeof SETTINGS> & {
  /** `MDS_` variables that mean nothing here: typing errors, most likely, to be warned of. */
  readonly unknownSettings: readonly string[];
};

/**
 * Reads the configuration from an environment. An empty variable counts as not set.
 * @throws ConfigError that lists every problem
 */
export function readConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const settings = readSettings(SETTINGS, environment);
  const conflicts = [
    ...(settings.roles.includes('api') && settings.originUrl !== null ? [ORIGIN_OF_AN_API] : []),
    ...queueConflicts(settings),
    ...storageConflicts(settings),
    ...(isPointOfPresence(settings) ? edgeConflicts(settings) : []),
  ];
  if (conflicts.length > 0) throw new ConfigError(conflicts);
  const unknownSettings = Object.entries(environment)
    .filter(([name, value]) => name.startsWith('MDS_') && value !== '' && !NAMES.has(name) && !FOREIGN.has(name))
    .map(([name]) => name);
  return { ...settings, unknownSettings };
}

/** Whether the process delivers what another service has, and serves no API of its own. */
export function isPointOfPresence({ roles }: Pick<Config, 'roles'>): boolean {
  return roles.includes('edge') && !roles.includes('api');
}

const ORIGIN_OF_AN_API =
  'MDS_ORIGIN_URL: a service with the role api is an origin itself. Leave this out, or set MDS_ROLES=edge for a point of presence of that origin';

/** Settings that a point of presence lacks, or must not have. */
function edgeConflicts(settings: SettingsOf<typeof SETTINGS>): string[] {
  const problems: string[] = [];
  const ofOrigin = [
    [SETTINGS.databaseUrl.name, settings.databaseUrl !== null],
    [SETTINGS.storageUrl.name, settings.storageUrl !== null],
    [SETTINGS.queue.name, settings.queue !== 'embedded'],
    [SETTINGS.queueUrl.name, settings.queueUrl !== null],
  ] as const;
  for (const [name, isSet] of ofOrigin) {
    if (!isSet) continue;
    problems.push(
      `${name}: the role edge without api asks its origin for everything, and should not hold the keys to its data. Leave this out`,
    );
  }
  if (settings.roles.includes('worker')) {
    problems.push(
      'MDS_ROLES: a worker needs the data folder of an api, which an edge alone does not have. Run edge and worker as two processes',
    );
  }
  if (settings.originUrl === null) {
    problems.push(
      'MDS_ORIGIN_URL: the role edge without api needs the address of the service that it belongs to, such as https://media.example.org',
    );
  }
  if (settings.controlToken === null) {
    problems.push(
      'MDS_CONTROL_TOKEN: the role edge without api needs an operator token of its origin: the one in control-token of the data folder there',
    );
  }
  return problems;
}

/** Texts that no answer and no log may show, each with its replacement. The token is not among them. */
export function secretsOf({ databaseUrl, queueUrl }: Pick<Config, 'databaseUrl' | 'queueUrl'>): Record<string, string> {
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

/** The configuration of a worker process of this service. It knows no operator token, as it needs none. */
export function configOfWorker(config: Config): Config {
  return { ...config, roles: ['worker'], controlToken: null };
}

/** An environment without the settings: what a process inherits that is sent its configuration. */
export function environmentWithoutSettings(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !NAMES.has(name)));
}
