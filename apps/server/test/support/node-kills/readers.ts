import type { DeliveredBytes } from './delivered-bytes.ts';
import type { FleetNode } from './fleet.ts';
import type { NodeAnswer } from './fleet-client.ts';
import { problemOf } from './fleet-client.ts';
import type { Entry } from './ledger.ts';
import type { LoadParts } from './writers.ts';

/** Readers of apis and edges. */
export interface Readers {
  /** Sends one random request. */
  read(): Promise<void>;
  /** Reads a whole rendition, with all files of a playlist. @returns whether all of it is right */
  readWhole(node: FleetNode, path: string, entry: Entry): Promise<boolean>;
}

const READ_ROUTES = ['', '/media', '/media?limit=3', '/regions', '/assets', '/status', '/formats', '/renditions'];
/** Caches may keep a 404 for five seconds. */
const TOLD_ABSENT_MS = 8_000;
/** A deletion reaches an edge by its events, which it may have to continue at another api. */
const DELETION_MS = 15_000;

/** @param parts.bytes the delivered bytes of all readers */
export function createReaders(parts: LoadParts & { bytes: DeliveredBytes }): Readers {
  const { fleet, client, ledger, random, bytes } = parts;
  const oneOf = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)];
  const anyNode = () => oneOf(fleet.up('api', 'edge')) as FleetNode;
  const unexpected = (answer: NodeAnswer, path: string) =>
    // The client has recorded 5xx already.
    answer.status < 500 && client.defect(`GET ${path} at ${answer.node.name}: ${answer.status}, ${problemOf(answer)}`);
  const judge = (wrong: string | null, { node }: NodeAnswer) => {
    if (wrong !== null) client.defect(`at ${node.name} ${wrong}`);
    return wrong === null;
  };
  const takeWhole = (path: string, answer: NodeAnswer) =>
    judge(bytes.whole(path, answer.body, answer.headers.get('etag')), answer);

  /** Addresses in a playlist (RFC 8216), those of EXT-X-MEDIA and EXT-X-MAP included. */
  const addressesIn = (playlist: string, path: string) => {
    const lines = playlist.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    const attributes = [...playlist.matchAll(/URI="([^"]+)"/g)].map(([, address = '']) => address);
    return [...lines, ...attributes].map((address) => new URL(address, `http://media.test${path}`).pathname);
  };

  const readWhole: Readers['readWhole'] = async (node, path, entry) => {
    const answer = await client.request(node, path);
    if (answer === null || entry.isLeaving) return true;
    if (answer.status !== 200) {
      unexpected(answer, path);
      return false;
    }
    let isRight = takeWhole(path, answer);
    if (!path.endsWith('.m3u8')) return isRight;
    for (const address of addressesIn(answer.body.toString(), path)) {
      isRight = (await readWhole(node, address, entry)) && isRight;
      if (!node.isUp) break;
    }
    return isRight;
  };

  const readPart = async (node: FleetNode, path: string, entry: Entry) => {
    // Few ranges, so that they repeat.
    const range = oneOf(['0-99', '1000-1999', '1048570-1048580']) as string;
    const answer = await client.request(node, path, { headers: { range: `bytes=${range}` } });
    if (answer === null || entry.isLeaving || answer.status === 416) return;
    if (answer.status !== 206) return unexpected(answer, path);
    const [, start, end, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(answer.headers.get('content-range') ?? '') ?? [];
    const part = { start: Number(start), end: Number(end), size: Number(size), body: answer.body };
    judge(bytes.part(path, { ...part, etag: answer.headers.get('etag') }), answer);
  };

  const readReady = async (node: FleetNode) => {
    const entry = oneOf(ledger.readyFor(TOLD_ABSENT_MS));
    if (!entry) return;
    const path = oneOf([...entry.paths, `/media/${entry.mediaId}/manifest.json`]) as string;
    if (path.endsWith('manifest.json')) {
      const answer = await client.request(node, path);
      if (answer !== null && answer.status !== 200 && !entry.isLeaving) unexpected(answer, path);
    } else if (random() < 0.5 && !path.endsWith('.m3u8')) await readPart(node, path, entry);
    else await readWhole(node, path, entry);
  };

  /** A rendition that is not ready is absent; one that is present is complete. */
  const readPending = async (node: FleetNode) => {
    const entry = oneOf(ledger.pending().filter(({ mediaId }) => mediaId !== null));
    if (!entry) return;
    const path = `/media/${entry.mediaId}/${entry.kind === 'video' ? 'hls/master.m3u8' : 'large.jpg'}`;
    const answer = await client.request(node, path);
    if (answer === null || answer.status === 404 || entry.isLeaving) return;
    if (answer.status !== 200) return unexpected(answer, path);
    await readWhole(node, path, entry);
  };

  const readDeleted = async (node: FleetNode) => {
    const entry = oneOf(ledger.deletedFor(DELETION_MS));
    if (!entry) return;
    const { mediaId } = entry;
    const path = oneOf([...entry.paths, `/media/${mediaId}/thumb.webp`, `/media/${mediaId}/manifest.json`]) as string;
    const answer = await client.request(node, path);
    if (answer === null || answer.status === 404 || answer.status === 410 || answer.status >= 500) return;
    client.defect(`GET ${path} at ${node.name}: ${answer.status}, though it was deleted`);
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
        const answer = await client.request(node, path);
        if (answer !== null && answer.status !== 200) unexpected(answer, path);
      }
    },
  };
}
