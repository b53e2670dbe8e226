import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { GetObjectCommand, paginateListObjectsV2 } from '@aws-sdk/client-s3';
import { findPrograms } from '@mds/transcode';
import { sha256 } from '../points-of-presence.ts';
import type { SeveralNodes } from '../several-nodes.ts';
import type { DatabaseWatch } from './database-watch.ts';
import type { Fleet } from './fleet.ts';
import type { Ledger } from './ledger.ts';

/** Prefix of the nodes' objects in their bucket. */
const PREFIX = 'media/';
const run = promisify(execFile);

/** Sizes of all objects of the nodes by key, as the bucket lists them. */
export async function objectsOf({ s3, bucket }: SeveralNodes): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for await (const page of paginateListObjectsV2({ client: s3.client }, { Bucket: bucket, Prefix: PREFIX })) {
    for (const { Key = '', Size = 0 } of page.Contents ?? []) found.set(Key.slice(PREFIX.length), Size);
  }
  return found;
}

/** Checks that every original is stored, byte for byte. @returns what is wrong */
export async function checkOriginals(all: SeveralNodes, ledger: Ledger): Promise<string[]> {
  const wrong: string[] = [];
  for (const { sha256: expected, mediaId } of ledger.kept()) {
    const Key = `${PREFIX}originals/${expected.slice(0, 2)}/${expected}`;
    const found = await all.s3.client.send(new GetObjectCommand({ Bucket: all.bucket, Key })).then(
      async ({ Body }) => sha256(Buffer.from((await Body?.transformToByteArray()) ?? [])),
      (error: Error) => error.name,
    );
    if (found !== expected) wrong.push(`the original of ${mediaId} is ${found} instead of ${expected}`);
  }
  return wrong;
}

/** Checks that every object belongs to a media object that was not deleted. @returns what is wrong */
export async function checkLeftovers(all: SeveralNodes, ledger: Ledger): Promise<string[]> {
  const kept = new Set(ledger.kept().map(({ sha256 }) => sha256));
  const wrong: string[] = [];
  for (const key of (await objectsOf(all)).keys()) {
    const [part, , hash = ''] = key.split('/');
    if (kept.has(hash)) continue;
    // A node was killed during its probe of the store.
    if (part === '.probe') continue;
    // Names the deployment of the storage.
    if (part === '.deployment') continue;
    wrong.push(`${key} belongs to nothing that is kept`);
  }
  return wrong;
}

/** Checks that all work is done, and was done once. @returns what is wrong */
export async function checkRows(parts: { database: DatabaseWatch; ledger: Ledger; fleet: Fleet }): Promise<string[]> {
  const { database, ledger, fleet } = parts;
  const wrong: string[] = [];
  const none = async (what: string, sql: string) => {
    const rows = await database.query(sql);
    if (rows.length > 0) wrong.push(`${what}: ${JSON.stringify(rows.slice(0, 5))}`);
  };
  await none('jobs are left', 'SELECT media_id, lease_worker, attempts, last_reason FROM jobs');
  await none(
    'BullMQ has jobs',
    "SELECT id, state::text FROM bullmq.job WHERE state::text NOT IN ('completed', 'failed')",
  );
  await none('fetches are under way', "SELECT id, status FROM fetches WHERE status IN ('queued', 'fetching')");
  await none('uploads are open', "SELECT id FROM uploads WHERE state = 'open'");
  await none('attempts run', "SELECT media_id, worker FROM processing_attempts WHERE outcome = 'running'");

  const made = await database.query<{ id: string; worker: string }>(
    "SELECT media_id AS id, worker FROM processing_attempts WHERE outcome = 'ready'",
  );
  const rows = new Set((await database.query<{ id: string }>('SELECT id FROM media')).map(({ id }) => id));
  for (const { mediaId, sha256: hash } of ledger.kept()) {
    const by = made.filter(({ id }) => id === mediaId).map(({ worker }) => Number(worker.split(':').at(-2)));
    if (by.length !== 1 || !fleet.pids.has(by[0] ?? 0))
      wrong.push(`${mediaId} was made by ${by.join(', ') || 'nobody'}`);
    if (!rows.delete(mediaId ?? '')) wrong.push(`${mediaId}, of ${hash}, has no row`);
  }
  // A request without a response was repeated under the same key.
  for (const id of rows) wrong.push(`${id} was acknowledged to nobody, or deleted`);
  return wrong;
}

/** Decodes bytes with ffmpeg. @returns its complaints; empty if there are none */
export async function decodeFaults(path: string): Promise<string> {
  const { ffmpeg } = await findPrograms({});
  const how = ['-nostdin', '-v', 'error', '-xerror', '-i', path, '-f', 'null', '-'];
  return run(ffmpeg.path, how).then(
    ({ stderr }) => stderr,
    (error: Error) => error.message,
  );
}

/** Files that nodes have left in staging and scratch folders. */
export async function unfinishedFiles({ folder }: SeveralNodes, { nodes }: Fleet): Promise<string[]> {
  const found: string[] = [];
  for (const { name, role } of nodes) {
    if (role === 'edge') continue;
    for (const part of ['staging', 'scratch']) {
      const files = await readdir(join(folder, name, part), { recursive: true }).catch(() => []);
      found.push(...files.map((file) => join(name, part, file)));
    }
  }
  return found;
}

/** The number of folders of killed workers that are not removed yet. Each node has one of its current worker. */
export async function abandonedFolders({ folder }: SeveralNodes, { of }: Fleet): Promise<number> {
  const all = await Promise.all(of('worker').map(({ name }) => readdir(join(folder, name, 'scratch'))));
  return all.flat().length - all.length;
}

/** Command lines of processes that work in the nodes' folder. */
export async function processesOf({ folder }: SeveralNodes): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    // A process may end meanwhile.
    const about = ['cmdline', 'environ'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => ''));
    const [command = '', environment = ''] = await Promise.all(about);
    if (`${command}\0${environment}`.includes(`${folder}/`)) found.push(command.replaceAll('\0', ' '));
  }
  return found.filter((command) => !command.includes(`${tmpdir()}/mds-s3`) && !command.startsWith('/bin/sh'));
}
