import type { DeliveredBytes } from './delivered-bytes.ts';
import type { FleetNode } from './fleet.ts';
import type { NodeAnswer } from './fleet-client.ts';
import { problemOf } from './fleet-client.ts';
import type { Entry } from './ledger.ts';
import type { LoadParts } from './writers.ts';

/** What only reads, at apis and edges alike. */
export interface Readers {
  /** One request, of whatever kind. */
  read(): Promise<void>;
  /** Reads a rendition whole, and all that a playlist leads to. @returns whether all of it is as it should be */
  readWhole(node: FleetNode, path: string, entry: Entry): Promise<boolean>;
}

const READ_ROUTES = ['', '/media', '/media?limit=3', '/regions', '/assets', '/status', '/formats', '/renditions'];
/** An absence may have been told to caches for five seconds. */
const TOLD_ABSENT_MS = 8_000;
/** A deletion reaches an edge by its events, which it may have to go on with at another api. */
const DELETION_MS = 15_000;

/** @param parts.bytes what all of them have delivered */
export function createReaders(parts: LoadParts & { bytes: DeliveredBytes }): Readers {
  const { fleet, client, ledger, random, bytes } = parts;
  const oneOf = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)];
  const anyNode = () => oneOf(fleet.up('api', 'edge')) as FleetNode;
  const unexpected = (told: NodeAnswer, path: string) =>
    // Of 5xx it is known already.
    told.status < 500 && client.defect(`GET ${path} at ${told.node.name}: ${told.status}, ${problemOf(told)}`);
  const judge = (wrong: string | null, { node }: NodeAnswer) => {
    if (wrong !== null) client.defect(`at ${node.name} ${wrong}`);
    return wrong === null;
  };
  const takeWhole = (path: string, told: NodeAnswer) =>
    judge(bytes.whole(path, told.body, told.headers.get('etag')), told);

  /** Addresses in a playlist (RFC 8216), those of EXT-X-MEDIA and EXT-X-MAP included. */
  const addressesIn = (playlist: string, path: string) => {
    const lines = playlist.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    const attributes = [...playlist.matchAll(/URI="([^"]+)"/g)].map(([, address = '']) => address);
    return [...lines, ...attributes].map((address) => new URL(address, `http://media.test${path}`).pathname);
  };

  const readWhole: Readers['readWhole'] = async (node, path, entry) => {
    const told = await client.request(node, path);
    if (told === null || entry.isLeaving) return true;
    if (told.status !== 200) {
      unexpected(told, path);
      return false;
    }
    let isRight = takeWhole(path, told);
    if (!path.endsWith('.m3u8')) return isRight;
    for (const address of addressesIn(told.body.toString(), path)) {
      isRight = (await readWhole(node, address, entry)) && isRight;
      if (!node.isUp) break;
    }
    return isRight;
  };

  const readPart = async (node: FleetNode, path: string, entry: Entry) => {
    // A few ranges, so that they meet again.
    const range = oneOf(['0-99', '1000-1999', '1048570-1048580']) as string;
    const told = await client.request(node, path, { headers: { range: `bytes=${range}` } });
    if (told === null || entry.isLeaving || told.status === 416) return;
    if (told.status !== 206) return unexpected(told, path);
    const [, start, end, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(told.headers.get('content-range') ?? '') ?? [];
    const part = { start: Number(start), end: Number(end), size: Number(size), body: told.body };
    judge(bytes.part(path, { ...part, etag: told.headers.get('etag') }), told);
  };

  const readReady = async (node: FleetNode) => {
    const entry = oneOf(ledger.readyFor(TOLD_ABSENT_MS));
    if (!entry) return;
    const path = oneOf([...entry.paths, `/media/${entry.mediaId}/manifest.json`]) as string;
    if (path.endsWith('manifest.json')) {
      const told = await client.request(node, path);
      if (told !== null && told.status !== 200 && !entry.isLeaving) unexpected(told, path);
    } else if (random() < 0.5 && !path.endsWith('.m3u8')) await readPart(node, path, entry);
    else await readWhole(node, path, entry);
  };

  /** What is not ready is not there; what is there is whole. */
  const readPending = async (node: FleetNode) => {
    const entry = oneOf(ledger.pending().filter(({ mediaId }) => mediaId !== null));
    if (!entry) return;
    const path = `/media/${entry.mediaId}/${entry.kind === 'video' ? 'hls/master.m3u8' : 'large.jpg'}`;
    const told = await client.request(node, path);
    if (told === null || told.status === 404 || entry.isLeaving) return;
    if (told.status !== 200) return unexpected(told, path);
    await readWhole(node, path, entry);
  };

  const readDeleted = async (node: FleetNode) => {
    const entry = oneOf(ledger.deletedFor(DELETION_MS));
    if (!entry) return;
    const { mediaId } = entry;
    const path = oneOf([...entry.paths, `/media/${mediaId}/thumb.webp`, `/media/${mediaId}/manifest.json`]) as string;
    const told = await client.request(node, path);
    if (told === null || told.status === 404 || told.status === 410 || told.status >= 500) return;
    client.defect(`GET ${path} at ${node.name}: ${told.status}, though it was deleted`);
  };

  return {
    readWhole,
    async read() {
      const node = anyNode();
      const kind = random();
      if (kind < 0.5) await readReady(node);
      else if (kind < 0.65) await readPending(node);
      else if (kind < 0.8) await readDeleted(node);
      else {
        const path = `/api/v1${oneOf(READ_ROUTES)}`;
        const told = await client.request(node, path);
        if (told !== null && told.status !== 200) unexpected(told, path);
      }
    },
  };
}
