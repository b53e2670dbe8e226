import { extname } from 'node:path';
import { programOnPath } from '@mds/transcode';
import { type Nginx, startNginx } from '../../apps/server/test/support/nginx.ts';
import type { Need } from '../benchmark.ts';
import type { StoredObjects } from '../service/stored-objects.ts';

export const nginx: Need = { program: 'nginx', hint: 'install it (`apt-get install nginx`) and have it on PATH.' };

/** What nginx writes itself, or what tells about one answer only. */
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

/** Fields of an answer that nginx does not have by itself and is told to send, so that both sides send the same. */
export function fieldsToAdd(answer: Response): [name: string, value: string][] {
  return [...answer.headers].filter(([name]) => !OWN_FIELDS.has(name));
}

/**
 * Starts nginx over the stored files, tuned for them: one worker, sendfile, open files kept open, no log, kept connections.
 * @param fields header fields that it adds to its answers
 * @param options.tcpNopush whether full packets are preferred (`TCP_CORK`); on by default
 * @throws with what nginx said where it does not come up
 */
export async function startTunedNginx(
  { wwwDir, renditions }: Pick<StoredObjects, 'wwwDir' | 'renditions'>,
  fields: readonly (readonly [name: string, value: string])[],
  { tcpNopush = true }: { tcpNopush?: boolean } = {},
): Promise<Nginx> {
  const program = programOnPath('nginx');
  if (program === null) throw new Error('nginx is not on PATH.');
  const types = Object.fromEntries(renditions.map(({ path, contentType }) => [extname(path).slice(1), contentType]));
  const quoted = (value: string) => `'${value.replaceAll("'", "\\'")}'`;
  const added = fields.map(([name, value]) => `add_header ${name} ${quoted(value)}`);
  return startNginx(program, {
    root: wwwDir,
    types,
    directives: [...TUNED, `tcp_nopush ${tcpNopush ? 'on' : 'off'}`, ...added],
  });
}
