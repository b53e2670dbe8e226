import { createHash } from 'node:crypto';
import { link, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contentAt, fillDataDir, type StoredRendition } from './support/fill-data-dir.ts';
import { type Nginx, startNginx } from './support/nginx.ts';
import { differences } from './support/nginx-agreement/differences.ts';
import { type Answer, exchange, partsOf, stretchOf } from './support/nginx-agreement/exchange.ts';
import { type FileFacts, type MixedRequest, mixedRequest } from './support/nginx-agreement/mixed-requests.ts';
import { seededRandom } from './support/seeded-random.ts';
import { type ServiceProcess, spawnService } from './support/service-process.ts';
import { findSystemProgram, testWith } from './support/system-program.ts';

const REQUESTS = 10_000;
const AT_ONCE = 8;
const SEED = Number(process.env['MDS_TEST_SEED'] ?? 4);
const nginxProgram = findSystemProgram('nginx');

/** Sizes below a piece, at its borders, and of several pieces. */
const RENDITIONS = [
  { name: 'dot', extension: 'webp', contentType: 'image/webp', bytes: 1 },
  { name: 'thumb', extension: 'webp', contentType: 'image/webp', bytes: 10_240 },
  { name: 'small', extension: 'avif', contentType: 'image/avif', bytes: 700 },
  { name: 'medium', extension: 'avif', contentType: 'image/avif', bytes: 40_001 },
  { name: 'medium', extension: 'webp', contentType: 'image/webp', bytes: 55_555 },
  { name: 'medium', extension: 'jpg', contentType: 'image/jpeg', bytes: 100_000 },
  { name: 'piece', extension: 'mp4', contentType: 'video/mp4', bytes: 1_048_576 },
  { name: 'over', extension: 'mp4', contentType: 'video/mp4', bytes: 1_048_577 },
  { name: 'film', extension: 'mp4', contentType: 'video/mp4', bytes: 3_500_017 },
].map((rendition) => ({ ...rendition, seed: `${rendition.name}.${rendition.extension}` }));

type File = StoredRendition & FileFacts & { content: Buffer };

describe('delivery and nginx over the same files', () => {
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  /** nginx 1.22 closes a keep-alive connection after a 412 without `Connection: close`. */
  const nginxAgent = new Agent({ keepAlive: false });
  let folder: string;
  let service: ServiceProcess;
  let files: File[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mds-agreement-'));
    const dataDir = join(folder, 'data');
    const stored = await fillDataDir(dataDir, [{ renditions: RENDITIONS }]);
    for (const { path, file } of stored) {
      const served = join(folder, 'www', path);
      await mkdir(dirname(served), { recursive: true });
      await link(join(dataDir, file), served);
    }
    service = await spawnService({ dataDir, env: { MDS_ROLES: 'api,edge' } });
    files = await Promise.all(
      stored.map(async (rendition, index) => {
        const head = await fetch(service.url + rendition.path, { method: 'HEAD' });
        const lastModifiedMs = Date.parse(head.headers.get('last-modified') ?? '');
        const content = contentAt(RENDITIONS[index]?.seed ?? '', 0, rendition.bytes);
        return { ...rendition, lastModifiedMs, content };
      }),
    );
  });

  afterAll(async () => {
    agent.destroy();
    await service?.end('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  });

  const ask = (url: string, { method, file, headers, leavesAfter }: MixedRequest, etags: readonly string[]) => {
    const filledIn = Object.entries(headers).map(([name, value]) => [
      name,
      value.replaceAll('{etag}', etags[file] ?? ''),
    ]);
    return exchange(url, url === service.url ? agent : nginxAgent, {
      method,
      path: files[file]?.path ?? '',
      headers: Object.fromEntries(filledIn),
      leavesAfter,
    });
  };

  const tagsOf = (url: string) =>
    Promise.all(
      files.map(async ({ path }) => {
        const { headers } = await exchange(url, nginxAgent, { method: 'HEAD', path, headers: {}, leavesAfter: null });
        return headers.etag ?? 'none';
      }),
    );

  testWith(nginxProgram, 'nginx')(
    `${REQUESTS.toLocaleString('en')} mixed requests get the responses that nginx gives`,
    async () => {
      const types = Object.fromEntries(RENDITIONS.map(({ extension, contentType }) => [extension, contentType]));
      const nginx = await startNginx(nginxProgram ?? '', { root: join(folder, 'www'), types });
      try {
        await compareAll(nginx);
      } finally {
        await nginx.stop();
      }
    },
  );

  async function compareAll(nginx: Nginx): Promise<void> {
    const [ourTags, theirTags] = [await tagsOf(service.url), await tagsOf(nginx.url)];
    const random = seededRandom(SEED);
    const disagreements: string[] = [];
    const statuses = new Map<number, number>();
    /** How often nginx answered the request differently from its plain form. */
    const needed = new Map(differences.map(({ name }) => [name, 0]));
    let left = REQUESTS;

    const next = async () => {
      while (left-- > 0 && disagreements.length < 10) {
        const request = mixedRequest(random, files);
        const file = files[request.file] as File;
        const [plain, names] = plainly(request, file);
        const [ours, theirs] = await Promise.all([
          ask(service.url, request, ourTags),
          ask(nginx.url, plain, theirTags),
        ]);
        statuses.set(ours.status, (statuses.get(ours.status) ?? 0) + 1);
        const found = [
          ...untruths(ours, request, file).map((text) => `the service ${text}`),
          ...untruths(theirs, plain, file).map((text) => `nginx ${text}`),
          ...disagreementsOf(ours, theirs),
        ];
        if (found.length > 0) disagreements.push(`${JSON.stringify({ request, plain, found }, null, 1)}`);
        // If there are several kinds, the cause of the difference is unknown.
        const [name] = names;
        if (names.length !== 1 || name === undefined) continue;
        const taken = await ask(nginx.url, request, theirTags);
        if (disagreementsOf(ours, taken).length > 0) needed.set(name, (needed.get(name) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));

    expect(disagreements, `MDS_TEST_SEED=${SEED} makes these requests again`).toEqual([]);
    for (const status of [200, 206, 304, 412, 416])
      expect(statuses.get(status), `answers with ${status}`).toBeGreaterThan(100);
    // A difference that nginx no longer shows must be removed from the list.
    expect([...needed].filter(([, times]) => times === 0)).toEqual([]);
    for (const { path, sha256, bytes } of files) {
      const whole = await exchange(service.url, agent, { method: 'GET', path, headers: {}, leavesAfter: null });
      expect([whole.body.length, createHash('sha256').update(whole.body).digest('hex')]).toEqual([bytes, sha256]);
    }
  }

  it('a negotiated format has the same bytes as its own path', async () => {
    const random = seededRandom(SEED);
    const [path = ''] = files
      .filter(({ path }) => path.includes('/medium.'))
      .map(({ path }) => path.replace(/\.\w+$/, ''));
    const types = [
      'image/avif',
      'image/webp',
      'image/jpeg',
      'image/*',
      '*/*',
      'image/avif;q=0',
      'image/webp;q=0.4',
      'image/jpeg;q=0.9',
    ];
    const chosen = new Map<string, string>();
    for (let round = 0; round < 300; round += 1) {
      const accept = types.filter(() => random() < 0.4).join(', ') || '*/*';
      const method = random() < 0.2 ? 'HEAD' : 'GET';
      const ask = (at: string, headers: Record<string, string>) =>
        exchange(service.url, agent, { method, path: at, headers, leavesAfter: null });
      const answer = await ask(path, { accept });
      const location = answer.headers['content-location'] ?? `none, ${answer.status}`;
      expect(chosen.get(accept) ?? location, accept).toBe(location);
      chosen.set(accept, location);
      expect(answer.headers.vary, accept).toContain('Accept');
      if (answer.status === 406) continue;
      const direct = await ask(location, {});
      expect([answer.status, direct.status]).toEqual([200, 200]);
      for (const name of ['etag', 'content-type', 'content-length', 'last-modified', 'accept-ranges']) {
        expect(answer.headers[name], `${name} for ${accept}`).toBe(direct.headers[name]);
      }
      expect(answer.body.equals(direct.body), accept).toBe(true);
    }
    expect(new Set(chosen.values()).size).toBeGreaterThanOrEqual(3);
  });
});

/** The request in its plain form, and the names of the differences. */
function plainly(request: MixedRequest, file: FileFacts): [MixedRequest, string[]] {
  const names: string[] = [];
  let plain = request;
  for (const difference of differences) {
    const replaced = difference.plainly(plain, file);
    if (replaced === null) continue;
    plain = replaced;
    names.push(difference.name);
  }
  return [plain, names];
}

/** Contradictions between a response and the file. */
function untruths(answer: Answer, { method, leavesAfter }: MixedRequest, { bytes, content }: File): string[] {
  const { status, headers, body } = answer;
  const length = headers['content-length'];
  if (status === 304 || method === 'HEAD')
    return body.length === 0 ? [] : [`sends content with ${status} to ${method}`];
  if (status !== 200 && status !== 206) return [];
  if (leavesAfter === null && Number(length) !== body.length) return [`sends ${body.length} bytes and says ${length}`];
  if (status === 200) {
    const whole = leavesAfter === null ? body.length === bytes : body.length <= bytes;
    return whole && body.equals(content.subarray(0, body.length)) ? [] : ['sends other bytes than those of the file'];
  }
  // A reader that left has no complete parts.
  if (leavesAfter !== null && headers['content-type']?.startsWith('multipart/')) return [];
  return partsOf(answer).flatMap(({ contentRange, bytes: part }) => {
    const { start, end, total } = stretchOf(contentRange);
    const asSaid = content.subarray(start, leavesAfter === null ? end + 1 : start + part.length);
    return total === bytes && part.equals(asSaid) ? [] : [`sends other bytes than ${contentRange}`];
  });
}

/** Differences of the two in status, header fields and parts. Bytes were compared with the file. */
function disagreementsOf(ours: Answer, theirs: Answer): string[] {
  if (ours.status !== theirs.status) return [`${ours.status} here, ${theirs.status} from nginx`];
  const isError = ours.status >= 400;
  const isMultipart = ours.headers['content-type']?.startsWith('multipart/byteranges') ?? false;
  // Error bodies differ, and the length of a multipart depends on its boundary.
  const names = ['content-range', 'last-modified', 'accept-ranges', 'content-type', 'content-length'].filter(
    (name) => !(isError || isMultipart) || (name !== 'content-type' && name !== 'content-length'),
  );
  const found = names
    .map((name) => ({ name, here: ours.headers[name], there: theirs.headers[name] }))
    .filter(({ here, there }) => here !== undefined && there !== undefined && here !== there)
    .map(({ name, here, there }) => `${name}: ${String(here)} here, ${String(there)} from nginx`);
  if (ours.status !== 206) return found;
  const described = (answer: Answer) => {
    if (
      answer.headers['content-type']?.startsWith('multipart/') &&
      Number(answer.headers['content-length']) !== answer.body.length
    )
      return 'left';
    return partsOf(answer)
      .map(({ contentType, contentRange }) => `${contentType} ${contentRange}`)
      .join(' | ');
  };
  const [here, there] = [described(ours), described(theirs)];
  return here === there || here === 'left' || there === 'left'
    ? found
    : [...found, `${here} here, ${there} from nginx`];
}
