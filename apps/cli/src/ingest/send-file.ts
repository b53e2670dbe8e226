import type { Client, Ingested, IngestOptions } from '@mds/client';
import type { IngestFile } from './find-files.ts';

/** How to send a file. */
export type SendOptions = Pick<IngestOptions, 'duplicate' | 'idempotencyKey' | 'onProgress' | 'signal'>;

/** Sends a file to the service, and resolves once it is stored safely there. */
export function sendFile(client: Client, file: IngestFile, options: SendOptions): Promise<Ingested> {
  return client.control.media.ingest(file.content, {
    filename: file.filename,
    bytes: file.bytes ?? undefined,
    ...options,
  });
}
