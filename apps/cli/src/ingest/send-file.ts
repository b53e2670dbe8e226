import { join } from 'node:path';
import { type Client, createFileUploadStore, type Ingested, type IngestOptions } from '@mds/client';
import type { Io } from '../io.ts';
import { stateFolder } from '../journal/default-journal.ts';
import { fileContent } from './file-content.ts';
import type { IngestFile, RemoteFile } from './find-files.ts';

/** How to send a file. */
export type SendOptions = Pick<IngestOptions, 'duplicate' | 'idempotencyKey' | 'onProgress' | 'signal'>;

/** Sends a file to the service, or has it fetch one, and resolves once it is stored safely there. */
export type SendFile = (file: IngestFile | RemoteFile, options: SendOptions) => Promise<Ingested>;

/** Files up to this many bytes go in one request: what a break costs then is less than asking how far it was. */
const ONE_REQUEST_BYTES = 16 * 1024 * 1024;

/**
 * Makes a {@link SendFile}. Large files go resumably: after a break, or in another run of the program, from where the
 * service has them.
 */
export function createSendFile(client: Client, io: Pick<Io, 'env' | 'cwd'>): SendFile {
  const state = stateFolder(io);
  // Without a place to remember it, an upload outlives breaks, but not the program.
  const resumeStore = state === null ? undefined : createFileUploadStore(join(state, 'uploads'));
  return (file, options) => {
    if ('url' in file) return fetchUrl(client, file, options);
    const { filename, source } = file;
    if (source === null || source.version.bytes <= ONE_REQUEST_BYTES) {
      return client.control.media.ingest(file.content, { filename, bytes: file.bytes ?? undefined, ...options });
    }
    const { path, version } = source;
    const { bytes, mtimeMs } = version;
    return client.control.media.upload(
      { bytes, open: (start) => fileContent(path, version, start) },
      {
        filename,
        ...(resumeStore && { resumeStore, resumeKey: JSON.stringify([path, bytes, mtimeMs, options.duplicate]) }),
        ...options,
      },
    );
  };
}

function fetchUrl(
  client: Client,
  { url, filename }: RemoteFile,
  { onProgress, ...options }: SendOptions,
): Promise<Ingested> {
  return client.control.media.ingestUrl(url, {
    filename,
    ...options,
    onProgress: ({ receivedBytes, totalBytes }) => onProgress?.({ sentBytes: receivedBytes, totalBytes }),
  });
}
