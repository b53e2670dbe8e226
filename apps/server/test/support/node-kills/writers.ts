import { setTimeout as sleep } from 'node:timers/promises';
import { Fetch, MEDIA_ID_HEADER, MediaDetail, UPLOADS_PATH } from '@mds/contract';
import { sha256 } from '../points-of-presence.ts';
import type { Random } from '../seeded-random.ts';
import type { Fleet } from './fleet.ts';
import { type FleetClient, type NodeAnswer, problemOf } from './fleet-client.ts';
import { type Entry, type Ledger, noteDetail } from './ledger.ts';
import type { TestFiles } from './test-files.ts';

/** What the load is made with. */
export interface LoadParts {
  fleet: Fleet;
  client: FleetClient;
  ledger: Ledger;
  random: Random;
}

/** What changes something. Each goes on at another node where the one that it asked was killed, until it knows the outcome. */
export interface Writers {
  /** A file in one request. */
  send(): Promise<void>;
  /** A file in pieces, each to whichever node is there. */
  sendResumably(): Promise<void>;
  /** Has a file fetched from a URL. */
  haveFetched(): Promise<void>;
  /** Deletes a media object, perhaps while it is being processed. */
  remove(): Promise<void>;
  /** Looks what became of promised fetches and of media that are not ready yet. */
  look(): Promise<void>;
  readonly counts: {
    sent: number;
    resumable: number;
    continued: number;
    fetches: number;
    videos: number;
    deleted: number;
  };
}

/** So many may wait: what is acknowledged is to be processed within the test. */
const BACKLOG = 8;
const PIECE_BYTES = 300_000;
/** Of a resumable upload: every other request of it may meet a node that is killed. */
const UPLOAD_MS = 600_000;
/** Every so many files of one request is a film. */
const FILM_EVERY = 12;

export function createWriters(parts: LoadParts & { files: TestFiles }): Writers {
  const { fleet, client, ledger, random, files } = parts;
  const counts = { sent: 0, resumable: 0, continued: 0, fetches: 0, videos: 0, deleted: 0 };
  const oneOf = <T>(list: readonly T[]): T => {
    const found = list[Math.floor(random() * list.length)];
    if (found === undefined) throw new RangeError('there is nothing to choose from');
    return found;
  };

  /** Asks apis, one after the other, until one has answered. */
  const insist = (path: string, init: RequestInit) =>
    client.requestUntilAnswered(() => oneOf(fleet.up('api')), path, init);
  const unexpected = (told: NodeAnswer, what: string) =>
    client.defect(`${what} at ${told.node.name}: ${told.status}, ${problemOf(told)}`);
  const room = () => ledger.pending().length < BACKLOG;

  const accept = async (entry: Entry, body: Buffer<ArrayBuffer>) => {
    const told = await insist('/control/v1/media', {
      method: 'POST',
      headers: { 'idempotency-key': entry.sha256 },
      body,
    });
    if (told.status !== 201 && told.status !== 200) return unexpected(told, 'a file in one request');
    ledger.acknowledge(entry, MediaDetail.parse(JSON.parse(told.body.toString())).id);
  };

  /** Sends what an upload lacks. @returns the media object that it became; null: ask once more */
  const goOn = async (path: string, body: Buffer<ArrayBuffer>, known: { offset: number }): Promise<string | null> => {
    const tus = { 'tus-resumable': '1.0.0' };
    const head = await insist(path, { method: 'HEAD', headers: tus });
    if (head.status === 423) return null;
    if (head.status !== 200) throw new Error(`an upload is gone: ${head.status} at ${head.node.name}`);
    const offset = Number(head.headers.get('upload-offset'));
    if (offset < known.offset) client.defect(`${path} was at ${known.offset} and is at ${offset}`);
    const made = head.headers.get(MEDIA_ID_HEADER);
    if (made !== null) return made;
    const told = await client.request(oneOf(fleet.up('api')), path, {
      method: 'PATCH',
      headers: { ...tus, 'upload-offset': String(offset), 'content-type': 'application/offset+octet-stream' },
      body: body.subarray(offset, offset + PIECE_BYTES),
    });
    if (told === null) counts.continued += 1;
    else if (told.status === 204) known.offset = Number(told.headers.get('upload-offset'));
    // The node that was killed may have had it: where it stands is asked for again.
    else if (![409, 423].includes(told.status) && told.status < 500) unexpected(told, `PATCH ${path}`);
    return told?.headers.get(MEDIA_ID_HEADER) ?? null;
  };

  return {
    counts,
    async send() {
      if (!room()) return;
      counts.sent += 1;
      const kind = counts.sent % FILM_EVERY === 5 ? 'video' : 'image';
      if (kind === 'video') counts.videos += 1;
      const body = kind === 'video' ? files.video() : random() < 0.3 ? files.largePicture() : files.picture();
      await accept(ledger.begin({ sha256: sha256(body), how: 'request', kind }), body);
    },

    async sendResumably() {
      if (!room()) return;
      counts.resumable += 1;
      const body = files.largePicture();
      const entry = ledger.begin({ sha256: sha256(body), how: 'resumable', kind: 'image' });
      const created = await insist(UPLOADS_PATH, {
        method: 'POST',
        headers: { 'tus-resumable': '1.0.0', 'upload-length': String(body.length) },
      });
      if (created.status !== 201) return unexpected(created, 'an upload');
      const path = new URL(created.headers.get('location') ?? '', created.node.url).pathname;
      const known = { offset: 0 };
      for (const deadline = Date.now() + UPLOAD_MS; Date.now() < deadline; await sleep(50)) {
        const mediaId = await goOn(path, body, known);
        if (mediaId === null) continue;
        ledger.acknowledge(entry, mediaId);
        return;
      }
      client.defect(`${path} did not come to an end in time`);
    },

    async haveFetched() {
      if (!room()) return;
      counts.fetches += 1;
      const { url, body } = files.offer();
      const entry = ledger.begin({ sha256: sha256(body), how: 'fetch', kind: 'image' });
      const told = await insist('/control/v1/media', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': entry.sha256 },
        body: JSON.stringify({ source_url: url }),
      });
      if (told.status !== 202 && told.status !== 200) return unexpected(told, 'a fetch');
      entry.fetchId = Fetch.parse(JSON.parse(told.body.toString())).id;
      entry.isAcknowledged = true;
    },

    async remove() {
      const candidates = ledger.kept().filter(({ mediaId }) => mediaId !== null);
      if (candidates.length < 12) return;
      const entry = oneOf(random() < 0.3 ? candidates.slice(-3) : candidates);
      entry.isLeaving = true;
      for (const deadline = Date.now() + 60_000; Date.now() < deadline; ) {
        const told = await client.request(oneOf(fleet.up('api')), `/control/v1/media/${entry.mediaId}`, {
          method: 'DELETE',
        });
        if (told === null) {
          entry.isCut = true;
          await sleep(200);
          continue;
        }
        // Gone already: by the one that was killed before it could say so.
        if (told.status !== 204 && !(told.status === 404 && entry.isCut)) unexpected(told, `DELETE ${entry.mediaId}`);
        entry.deletedAtMs = performance.now();
        counts.deleted += 1;
        return;
      }
      client.defect(`${entry.mediaId} could not be deleted within a minute`);
    },

    async look() {
      for (const entry of ledger.pending()) {
        const fetching = entry.mediaId === null;
        const path = fetching ? `/control/v1/fetches/${entry.fetchId}` : `/control/v1/media/${entry.mediaId}`;
        const told = await insist(path, {});
        if (entry.isLeaving) continue;
        if (told.status !== 200) {
          unexpected(told, `GET ${path}, which was acknowledged,`);
          continue;
        }
        const said: unknown = JSON.parse(told.body.toString());
        if (fetching) {
          const { status, media_id: mediaId, error } = Fetch.parse(said);
          if (mediaId !== null) ledger.acknowledge(entry, mediaId);
          else if (error !== null && status !== 'queued') client.defect(`${path} is ${status}: ${error.message}`);
        } else {
          const wrong = noteDetail(entry, MediaDetail.parse(said));
          if (wrong !== null) client.defect(wrong);
        }
      }
    },
  };
}
