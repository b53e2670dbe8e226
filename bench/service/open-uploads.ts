import type { ClientRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createUpload, offsetOf, openPatch, type TusEndpoint } from './tus-upload.ts';

const KIB = 1024;
const FILE_BYTES = 4 * KIB * KIB;
/** Sent as soon as an upload is open; after that, TRICKLE is sent every second. */
const BURST = Buffer.alloc(256 * KIB, 0x5a);
const TRICKLE = Buffer.alloc(16 * KIB, 0x5a);

/**
 * Keeps `count` resumable uploads open for some seconds, each with a running PATCH on its own connection; then breaks all connections.
 * @returns the defects: every upload must have the bytes that were sent to it, except those in flight when its connection broke
 */
export async function keepUploadsOpen(endpoint: TusEndpoint, count: number, seconds: number): Promise<string[]> {
  const open: { upload: string; patch: ClientRequest; sent: number; answered: boolean }[] = [];
  const openOne = async () => {
    const upload = await createUpload(endpoint, FILE_BYTES);
    const patch = openPatch(endpoint, upload, 0, FILE_BYTES);
    const entry = { upload, patch, sent: BURST.length, answered: false };
    patch.on('response', () => {
      entry.answered = true;
    });
    // The connection is broken on purpose at the end.
    patch.on('error', () => undefined);
    patch.write(BURST);
    open.push(entry);
  };
  // As many at once as the service answers without queueing.
  for (let opened = 0; opened < count; opened += 50) {
    await Promise.all(Array.from({ length: Math.min(50, count - opened) }, openOne));
  }
  for (let second = 0; second < seconds; second++) {
    const pause = sleep(1_000);
    for (const entry of open) {
      entry.patch.write(TRICKLE);
      entry.sent += TRICKLE.length;
    }
    await pause;
  }
  const problems = open.filter(({ answered }) => answered).map(({ upload }) => `${upload} was answered before its end`);
  await Promise.all(
    open.map(
      ({ patch }) =>
        new Promise<void>((resolve) => {
          // Not `once` of node:events: it rejects on the error that destroying causes.
          patch.once('close', () => resolve());
          patch.destroy();
        }),
    ),
  );
  for (const { upload, sent } of open) {
    const offset = await offsetOf(endpoint, upload);
    if (offset < BURST.length || offset > sent) problems.push(`${upload} has ${offset} bytes, and ${sent} were sent`);
  }
  return problems;
}
