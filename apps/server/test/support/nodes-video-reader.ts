import { setTimeout as pause } from 'node:timers/promises';
import { hlsFiles } from './nodes-video.ts';
import { get, sha256 } from './points-of-presence.ts';
import type { ServiceProcess } from './service-process.ts';

/** Between two rounds. */
const PAUSE_MS = 100;

/** The observations of a reader. */
export interface Reading {
  requests: number;
  /** A line for each wrong response. */
  failures: string[];
  /** The number of files of the HLS rendition when its playlist first appeared; 0 if it never did. */
  hlsFiles: number;
}

/**
 * Requests renditions from a node repeatedly, whole and in ranges, and the HLS rendition, which must be absent or complete.
 * @param sha256s of renditions by path
 */
export function readTillStopped(
  from: ServiceProcess,
  mediaId: string,
  sha256s: ReadonlyMap<string, string>,
): { stop(): Promise<Reading> } {
  const reading: Reading = { requests: 0, failures: [], hlsFiles: 0 };
  let stopped = false;

  const readRendition = async (path: string, hash: string) => {
    const whole = await get(from, path);
    if (whole.status !== 200 || sha256(whole.body) !== hash) reading.failures.push(`${path}: ${whole.status}`);
    const start = whole.body.length >> 1;
    const range = await get(from, path, { range: `bytes=${start}-${start + 99}` });
    const isRight = range.status === 206 && range.body.equals(whole.body.subarray(start, start + 100));
    if (!isRight) reading.failures.push(`${path} from ${start}: ${range.status}`);
    reading.requests += 2;
  };

  const readOn = async () => {
    while (!stopped) {
      for (const [path, hash] of sha256s) await readRendition(path, hash);
      if (reading.hlsFiles === 0) reading.hlsFiles = await hlsFiles(from, `/media/${mediaId}/hls/master.m3u8`);
      reading.requests += 1;
      // Leaves the processor to the worker.
      await pause(PAUSE_MS);
    }
  };
  const done = readOn().catch((error: unknown) => void reading.failures.push(String(error)));

  return {
    async stop() {
      stopped = true;
      await done;
      return reading;
    },
  };
}
