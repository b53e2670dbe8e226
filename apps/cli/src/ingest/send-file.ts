import { join } from 'node:path';
import {
  type Client,
  createFileUploadStore,
  type Ingested,
  type IngestOptions,
  type UploadProgress,
  type UploadStore,
} from '@mds/client';
import type { Io } from '../io.ts';
import { stateFolder } from '../journal/default-journal.ts';
import { fileContent } from './file-content.ts';
import type { IngestFile, RemoteFile } from './find-files.ts';

/** What is told of a file on its way. */
export interface SendEvents {
  onProgress?: ((progress: UploadProgress) => void) | undefined;
  /** What the service has of it from here on, is there for the next run of the program. */
  onKept?: (() => void) | undefined;
  /**
   * An earlier run has begun to send it; how far that came, the service is asked now.
   * @param wasSent whether all of it went out then
   */
  onGoingOn?: ((wasSent: boolean) => void) | undefined;
  /** The service fetches it itself, under this id. */
  onFetch?: ((id: string) => void) | undefined;
}

/** How to send a file. */
export interface SendOptions extends Pick<IngestOptions, 'duplicate' | 'idempotencyKey' | 'signal'>, SendEvents {}

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
  return (file, { onProgress, onKept, onGoingOn, onFetch, ...options }) => {
    if ('url' in file) return fetchUrl(client, file, { ...options, onProgress, onFetch });
    const { filename, source } = file;
    if (source === null || source.version.bytes <= ONE_REQUEST_BYTES) {
      const bytes = file.bytes ?? undefined;
      return client.control.media.ingest(file.content, { filename, bytes, onProgress, ...options });
    }
    const { path, version } = source;
    const { bytes, mtimeMs } = version;
    const memory = resumeStore && createMemory(resumeStore, { onKept, onGoingOn });
    return client.control.media.upload(
      { bytes, open: (start) => fileContent(path, version, start) },
      {
        filename,
        ...(memory && {
          resumeStore: memory.store,
          resumeKey: JSON.stringify([path, bytes, mtimeMs, options.duplicate]),
        }),
        ...options,
        onProgress(progress) {
          if (progress.sentBytes === progress.totalBytes) memory?.markSent();
          onProgress?.(progress);
        },
      },
    );
  };
}

/** A store that says what is kept in it, and besides keeps whether all of an upload went out: the service says so late. */
function createMemory(kept: UploadStore, { onKept, onGoingOn }: SendEvents) {
  let upload: { key: string; url: string } | null = null;
  let marking = Promise.resolve();
  const store: UploadStore = {
    async get(key) {
      const url = await kept.get(key);
      if (url === null) return null;
      upload = { key, url };
      onGoingOn?.((await kept.get(sentKey(key))) === url);
      return url;
    },
    async set(key, url) {
      await kept.set(key, url);
      upload = { key, url };
      onKept?.();
    },
    async delete(key) {
      upload = null;
      await marking;
      await kept.delete(sentKey(key));
      await kept.delete(key);
    },
  };
  return {
    store,
    markSent() {
      if (upload === null) return;
      const { key, url } = upload;
      // Without the mark the next run shows less, and does the same.
      marking = kept.set(sentKey(key), url).catch(() => undefined);
    },
  };
}

function sentKey(key: string): string {
  return `${key} sent`;
}

function fetchUrl(
  client: Client,
  { url, filename }: RemoteFile,
  { onProgress, onFetch, ...options }: SendOptions,
): Promise<Ingested> {
  return client.control.media.ingestUrl(url, {
    filename,
    ...options,
    onProgress({ id, receivedBytes, totalBytes }) {
      onFetch?.(id);
      onProgress?.({ sentBytes: receivedBytes, totalBytes });
    },
  });
}
