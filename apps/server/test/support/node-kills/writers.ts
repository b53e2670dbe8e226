import { setTimeout as sleep } from 'node:timers/promises';
import { Fetch, MEDIA_ID_HEADER, MediaDetail, UPLOADS_PATH } from '@mds/contract';
import { sha256 } from '../points-of-presence.ts';
import type { Random } from '../seeded-random.ts';
import type { Fleet } from './fleet.ts';
import { type FleetClient, type NodeAnswer, problemOf } from './fleet-client.ts';
import { type Entry, type Ledger, noteDetail } from './ledger.ts';
import type { TestFiles } from './test-files.ts';

/** The parts of a load. */
export interface LoadParts {
  fleet: Fleet;
  client: FleetClient;
  ledger: Ledger;
  random: Random;
}

/** Requests that change something. If a node is killed, each continues at another one until it knows the outcome. */
export interface Writers {
  /** Uploads a file in one request. */
  send(): Promise<void>;
  /** Uploads a file in pieces, each to any running node. */
  sendResumably(): Promise<void>;
  /** Requests a fetch from a URL. */
  requestFetch(): Promise<void>;
  /** Deletes a media object, perhaps while it is being processed. */
  remove(): Promise<void>;
  /** Checks accepted fetches, and media that are not ready yet. */
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

/** Limits the queue, which must be processed within the test. */
const BACKLOG = 8;
const PIECE_BYTES = 300_000;
/** Small, so that an upload takes several requests, any of which may meet a killed node. */
const UPLOAD_MS = 600_000;
/** One in so many files is a video. */
const FILM_EVERY = 12;

export function createWriters(parts: LoadParts & { files: TestFiles }): Writers {
  const { fleet, client, ledger, random, files } = parts;
  const counts = { sent: 0, resumable: 0, continued: 0, fetches: 0, videos: 0, deleted: 0 };
  const oneOf = <T>(list: readonly T[]): T => {
    const found = list[Math.floor(random() * list.length)];
    if (found === undefined) throw new RangeError('there is nothing to choose from');
    return found;
  };

  /** Repeats a request until an api answers. */
  const untilAnswered = (path: string, init: RequestInit) =>
    client.requestUntilAnswered(() => oneOf(fleet.up('api')), path, init);
  const unexpected = (answer: NodeAnswer, what: string) =>
    client.defect(`${what} at ${answer.node.name}: ${answer.status}, ${problemOf(answer)}`);
  const room = () => ledger.pending().length < BACKLOG;

  const accept = async (entry: Entry, body: Buffer<ArrayBuffer>) => {
    const answer = await untilAnswered('/control/v1/media', {
      method: 'POST',
      headers: { 'idempotency-key': entry.sha256 },
      body,
    });
    if (answer.status !== 201 && answer.status !== 200) return unexpected(answer, 'a file in one request');
    ledger.acknowledge(entry, MediaDetail.parse(JSON.parse(answer.body.toString())).id);
  };

  /** Sends the next piece of an upload. @returns the id of its media object; null: not complete */
  const sendNextPiece = async (
    path: string,
    body: Buffer<ArrayBuffer>,
    known: { offset: number },
  ): Promise<string | null> => {
    const tus = { 'tus-resumable': '1.0.0' };
    const head = await untilAnswered(path, { method: 'HEAD', headers: tus });
    if (head.status === 423) return null;
    if (head.status !== 200) throw new Error(`an upload is gone: ${head.status} at ${head.node.name}`);
    const offset = Number(head.headers.get('upload-offset'));
    if (offset < known.offset) client.defect(`${path} was at ${known.offset} and is at ${offset}`);
    const made = head.headers.get(MEDIA_ID_HEADER);
    if (made !== null) return made;
    const answer = await client.request(oneOf(fleet.up('api')), path, {
      method: 'PATCH',
      headers: { ...tus, 'upload-offset': String(offset), 'content-type': 'application/offset+octet-stream' },
      body: body.subarray(offset, offset + PIECE_BYTES),
    });
    if (answer === null) counts.continued += 1;
    else if (answer.status === 204) known.offset = Number(answer.headers.get('upload-offset'));
    // The killed node may have stored it, so the offset is requested again.
    else if (![409, 423].includes(answer.status) && answer.status < 500) unexpected(answer, `PATCH ${path}`);
    return answer?.headers.get(MEDIA_ID_HEADER) ?? null;
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
      const created = await untilAnswered(UPLOADS_PATH, {
        method: 'POST',
        headers: { 'tus-resumable': '1.0.0', 'upload-length': String(body.length) },
      });
      if (created.status !== 201) return unexpected(created, 'an upload');
      const path = new URL(created.headers.get('location') ?? '', created.node.url).pathname;
      const known = { offset: 0 };
      for (const deadline = Date.now() + UPLOAD_MS; Date.now() < deadline; await sleep(50)) {
        const mediaId = await sendNextPiece(path, body, known);
        if (mediaId === null) continue;
        ledger.acknowledge(entry, mediaId);
        return;
      }
      client.defect(`${path} did not come to an end in time`);
    },

    async requestFetch() {
      if (!room()) return;
      counts.fetches += 1;
      const { url, body } = files.offer();
      const entry = ledger.begin({ sha256: sha256(body), how: 'fetch', kind: 'image' });
      const answer = await untilAnswered('/control/v1/media', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': entry.sha256 },
        body: JSON.stringify({ source_url: url }),
      });
      if (answer.status !== 202 && answer.status !== 200) return unexpected(answer, 'a fetch');
      entry.fetchId = Fetch.parse(JSON.parse(answer.body.toString())).id;
      entry.isAcknowledged = true;
    },

    async remove() {
      const candidates = ledger.kept().filter(({ mediaId }) => mediaId !== null);
      if (candidates.length < 12) return;
      const entry = oneOf(random() < 0.3 ? candidates.slice(-3) : candidates);
      entry.isLeaving = true;
      for (const deadline = Date.now() + 60_000; Date.now() < deadline; ) {
        const answer = await client.request(oneOf(fleet.up('api')), `/control/v1/media/${entry.mediaId}`, {
          method: 'DELETE',
        });
        if (answer === null) {
          entry.isCut = true;
          await sleep(200);
          continue;
        }
        // The node that was killed has deleted it.
        if (answer.status !== 204 && !(answer.status === 404 && entry.isCut))
          unexpected(answer, `DELETE ${entry.mediaId}`);
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
        const answer = await untilAnswered(path, {});
        if (entry.isLeaving) continue;
        if (answer.status !== 200) {
          unexpected(answer, `GET ${path}, which was acknowledged,`);
          continue;
        }
        const body: unknown = JSON.parse(answer.body.toString());
        if (fetching) {
          const { status, media_id: mediaId, error } = Fetch.parse(body);
          if (mediaId !== null) ledger.acknowledge(entry, mediaId);
          else if (error !== null && status !== 'queued') client.defect(`${path} is ${status}: ${error.message}`);
        } else {
          const wrong = noteDetail(entry, MediaDetail.parse(body));
          if (wrong !== null) client.defect(wrong);
        }
      }
    },
  };
}
