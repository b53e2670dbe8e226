import { extname } from 'node:path';
import { programOnPath } from '@mds/transcode';
import { type Nginx, startNginx } from '../../apps/server/test/support/nginx.ts';
import type { Need } from '../benchmark.ts';
import type { StoredObjects } from '../service/stored-objects.ts';
import { median } from '../statistics.ts';

export const nginx: Need = { program: 'nginx', hint: 'install it (`apt-get install nginx`) and have it on PATH.' };

/** Fields that nginx writes itself, or that belong to one answer only. */
const OWN_FIELDS: ReadonlySet<string> = new Set([
  ...[
    'date',
    'server',
    'connection',
    'keep-alive',
    'transfer-encoding',
    'content-length',
    'content-type',
    'content-range',
  ],
  ...['accept-ranges', 'etag', 'last-modified', 'x-request-id'],
]);

/** As one would set it for static files that matter: open files are kept open, and so are connections. */
const TUNED: readonly string[] = [
  'open_file_cache max=10000 inactive=10m',
  'open_file_cache_valid 60s',
  'open_file_cache_min_uses 1',
  'keepalive_timeout 65s',
];

/** Header fields of an answer that nginx does not have by itself. It is configured to send them, so that both sides send the same. */
export function fieldsToAdd(answer: Response): [name: string, value: string][] {
  return [...answer.headers].filter(([name]) => !OWN_FIELDS.has(name));
}

/** `tcp_nopush` helps nginx with some sizes and costs it with others. The better variant of each case counts. */
const VARIANTS = { nginx: 'on', 'nginx, tcp_nopush off': 'off' } as const;
export type NginxSide = keyof typeof VARIANTS;

/** nginx in each variant, over the same files. */
export interface NginxPeer {
  /** Base address of each variant. */
  readonly urls: Readonly<Record<NginxSide, string>>;
  stop(): Promise<void>;
}

/**
 * Starts nginx over the stored files, tuned for them: one worker, sendfile, open files kept open, no log, kept connections.
 * @param fields header fields that it adds to its answers
 * @throws with nginx's own message if it does not start
 */
export async function startTunedNginx(
  { wwwDir, renditions }: Pick<StoredObjects, 'wwwDir' | 'renditions'>,
  fields: readonly (readonly [name: string, value: string])[],
): Promise<NginxPeer> {
  const program = programOnPath('nginx');
  if (program === null) throw new Error('nginx is not on PATH.');
  const types = Object.fromEntries(renditions.map(({ path, contentType }) => [extname(path).slice(1), contentType]));
  const quoted = (value: string) => `'${value.replaceAll("'", "\\'")}'`;
  const added = fields.map(([name, value]) => `add_header ${name} ${quoted(value)}`);
  const start = (side: NginxSide) =>
    startNginx(program, {
      root: wwwDir,
      types,
      directives: [...TUNED, `tcp_nopush ${VARIANTS[side]}`, ...added],
    });
  const running: Record<NginxSide, Nginx> = {
    nginx: await start('nginx'),
    'nginx, tcp_nopush off': await start('nginx, tcp_nopush off'),
  };
  return {
    urls: { nginx: running.nginx.url, 'nginx, tcp_nopush off': running['nginx, tcp_nopush off'].url },
    stop: async () => {
      for (const each of Object.values(running)) await each.stop();
    },
  };
}

/** The rates of the variant with the higher median. */
export function fasterNginx(rates: Readonly<Record<NginxSide, readonly number[]>>): readonly number[] {
  const variants = [rates.nginx, rates['nginx, tcp_nopush off']] as const;
  return median(variants[0]) >= median(variants[1]) ? variants[0] : variants[1];
}
