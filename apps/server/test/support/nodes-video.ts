import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { ListBucketsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import type { Client, Event } from '@mds/client';
import { findPrograms } from '@mds/transcode';
import { get, sha256 } from './points-of-presence.ts';
import { childrenOf } from './process-tree.ts';
import type { S3Server } from './s3-server.ts';
import type { ServiceProcess } from './service-process.ts';

const run = promisify(execFile);

/** Frames a second of {@link makeFilm}'s film. */
export const FRAME_RATE = 24;

/**
 * Makes a video of MPEG-4 and MP3, whose streams cannot be copied. A short one has two rungs, so that its ladder takes seconds on any
 * machine. A long one has small frames, so that its ladder takes minutes, not an hour.
 */
export async function makeFilm(path: string, seconds: number): Promise<void> {
  const { ffmpeg } = await findPrograms({});
  const size = seconds < 120 ? '854x480' : '426x240';
  const picture = `testsrc2=size=${size}:rate=${FRAME_RATE}:duration=${seconds}`;
  const tone = `sine=frequency=440:sample_rate=48000:duration=${seconds}`;
  const sources = ['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', tone];
  const codecs = ['-c:v', 'mpeg4', '-q:v', '6', '-g', '48', '-c:a', 'libmp3lame', '-ac', '2'];
  await run(ffmpeg.path, ['-nostdin', '-loglevel', 'error', '-y', ...sources, ...codecs, path]);
}

/** Renditions of a film, besides those of an image. */
export const FILM_PRESETS = [
  { name: 'poster', container: 'webp', source_kinds: ['video'], width: 640, height: 640 },
  { name: 'poster', container: 'jpeg', source_kinds: ['video'], width: 640, height: 640 },
  { type: 'preview', name: 'preview' },
  { type: 'storyboard', name: 'storyboard', container: 'jpeg' },
  { type: 'storyboard', name: 'storyboard', container: 'vtt' },
  { type: 'mp4', name: 'mp4' },
  { type: 'hls' },
];

/** Process ids of a process and all below it. */
export async function familyOf(pid: number): Promise<number[]> {
  const below = await Promise.all((await childrenOf(pid)).map(familyOf));
  return [pid, ...below.flat()];
}

/** The processes that still run. */
export async function livingOf(pids: readonly number[]): Promise<number[]> {
  const there = new Set(await readdir('/proc'));
  return pids.filter((pid) => there.has(String(pid)));
}

/** Command lines of the processes that work on files below a folder. */
export async function programsIn(folder: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  // A process may end meanwhile.
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
  return lines.map((line) => line.replaceAll('\0', ' ')).filter((line) => line.includes(folder));
}

/** A stored object as S3 lists it. */
export interface StoredObject {
  etag: string | undefined;
  modified: number | undefined;
}

/** The objects below a prefix of the server's only bucket, by key. */
export async function objectsBelow({ client }: S3Server, prefix: string): Promise<Map<string, StoredObject>> {
  const { Buckets: [bucket] = [] } = await client.send(new ListBucketsCommand({}));
  const found = new Map<string, StoredObject>();
  for (let token: string | undefined; ; ) {
    const page = await client.send(
      new ListObjectsV2Command({ Bucket: bucket?.Name, Prefix: prefix, ContinuationToken: token }),
    );
    for (const { Key = '', ETag, LastModified } of page.Contents ?? []) {
      found.set(Key, { etag: ETag, modified: LastModified?.getTime() });
    }
    token = page.NextContinuationToken;
    if (token === undefined) return found;
  }
}

/** Follows all events of a node from now on. Resolves once connected. */
export async function collectEvents(client: Client): Promise<{ events: readonly Event[]; stop(): Promise<void> }> {
  const events: Event[] = [];
  const controller = new AbortController();
  let following: Promise<void> = Promise.resolve();
  await new Promise<void>((resolve, reject) => {
    following = (async () => {
      for await (const event of client.control.events({ signal: controller.signal, onOpen: resolve }))
        events.push(event);
    })().catch((error: unknown) => {
      if (!controller.signal.aborted) reject(error);
    });
  });
  return {
    events,
    async stop() {
      controller.abort();
      await following;
    },
  };
}

/** The parts of a rendition's response that must not change. */
export interface Delivered {
  sha256: string;
  bytes: number;
  etag: string | null;
  lastModified: string | null;
}

/** GETs a whole rendition. @throws if the response is no 200 */
export async function delivered(from: ServiceProcess, path: string): Promise<Delivered> {
  const { status, body, headers } = await get(from, path);
  if (status !== 200) throw new Error(`${path} is answered with ${status}.`);
  const [etag, lastModified] = [headers.get('etag'), headers.get('last-modified')];
  return { sha256: sha256(body), bytes: body.length, etag, lastModified };
}

/** Requests a playlist and all files that it names. @returns the number of files; 0 if there is no playlist yet. @throws if a file is missing */
export async function hlsFiles(from: ServiceProcess, path: string): Promise<number> {
  const { status, body } = await get(from, path);
  if (status === 404) return 0;
  if (status !== 200) throw new Error(`${path} is answered with ${status}.`);
  if (!path.endsWith('.m3u8')) return 1;
  const text = body.toString();
  const named = [
    ...text.split('\n').filter((line) => line !== '' && !line.startsWith('#')),
    ...[...text.matchAll(/URI="([^"]+)"/g)].map(([, uri = '']) => uri),
  ];
  let files = 1;
  for (const name of new Set(named)) {
    const below = await hlsFiles(from, new URL(name, from.url + path).pathname);
    if (below === 0) throw new Error(`${path} names ${name}, which is not there.`);
    files += below;
  }
  return files;
}

/** The duration in seconds, and the number of decoded frames. */
export async function played(url: string): Promise<{ seconds: number; frames: number; complaints: string }> {
  const { ffmpeg, ffprobe } = await findPrograms({});
  const { stdout } = await run(ffprobe.path, [
    '-v',
    'error',
    '-show_entries',
    'format=duration',
    '-of',
    'csv=p=0',
    url,
  ]);
  const decode = ['-nostdin', '-v', 'error', '-i', url, '-map', '0:v:0', '-map', '0:a:0'];
  const progress = await run(ffmpeg.path, [...decode, '-progress', 'pipe:1', '-f', 'null', '-'], {
    maxBuffer: 64 * 1024 * 1024,
  });
  const frames = [...progress.stdout.matchAll(/^frame=(\d+)$/gm)].at(-1)?.[1];
  return { seconds: Number(stdout), frames: Number(frames), complaints: progress.stderr };
}
