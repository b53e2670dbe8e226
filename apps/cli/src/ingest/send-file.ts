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

/** Reports about a file while it is sent. */
export interface SendEvents {
  onProgress?: ((progress: UploadProgress) => void) | undefined;
  /** From now on, another run of the program can resume the upload. */
  onResumable?: (() => void) | undefined;
  /**
   * An earlier run started this upload. The service is now asked how much it has.
   * @param wasSent whether that run sent every byte
   */
  onResume?: ((wasSent: boolean) => void) | undefined;
  /** The service fetches the file itself, under this id. */
  onFetch?: ((id: string) => void) | undefined;
}

/** How to send a file. */
export interface SendOptions extends Pick<IngestOptions, 'duplicate' | 'idempotencyKey' | 'signal'>, SendEvents {}

/** Sends a file to the service, or has it fetch a URL. Resolves when the file is stored safely. */
export type SendFile = (file: IngestFile | RemoteFile, options: SendOptions) => Promise<Ingested>;

/** Files up to this size are sent in one request: sending them again costs less than asking for the offset. */
const ONE_REQUEST_BYTES = 16 * 1024 * 1024;

/**
 * Makes a {@link SendFile}. Large files are sent as resumable uploads: after a break, or in another run of the program, they resume
 * at the service's offset.
 */
export function createSendFile(client: Client, io: Pick<Io, 'env' | 'cwd'>): SendFile {
  const state = stateFolder(io);
  // Without a folder for its state, an upload survives broken connections but not the end of the program.
  const resumeStore = state === null ? undefined : createFileUploadStore(join(state, 'uploads'));
  return (file, { onProgress, onResumable, onResume, onFetch, ...options }) => {
    if ('url' in file) return fetchUrl(client, file, { ...options, onProgress, onFetch });
    const { filename, source } = file;
    if (source === null || source.version.bytes <= ONE_REQUEST_BYTES) {
      const bytes = file.bytes ?? undefined;
      return client.control.media.ingest(file.content, { filename, bytes, onProgress, ...options });
    }
    const { path, version } = source;
    const { bytes, mtimeMs } = version;
    const sentRecord = resumeStore && createSentRecord(resumeStore, { onResumable, onResume });
    return client.control.media.upload(
      { bytes, open: (start) => fileContent(path, version, start) },
      {
        filename,
        ...(sentRecord && {
          resumeStore: sentRecord.store,
          resumeKey: JSON.stringify([path, bytes, mtimeMs, options.duplicate]),
        }),
        ...options,
        onProgress(progress) {
          if (progress.sentBytes === progress.totalBytes) sentRecord?.markSent();
          onProgress?.(progress);
        },
      },
    );
  };
}

/** A store that reports what is saved in it. It also records whether all bytes were sent, because the service confirms that late. */
function createSentRecord(uploads: UploadStore, { onResumable, onResume }: SendEvents) {
  let upload: { key: string; url: string } | null = null;
  let marking = Promise.resolve();
  const store: UploadStore = {
    async get(key) {
      const url = await uploads.get(key);
      if (url === null) return null;
      upload = { key, url };
      onResume?.((await uploads.get(sentKey(key))) === url);
      return url;
    },
    async set(key, url) {
      await uploads.set(key, url);
      upload = { key, url };
      onResumable?.();
    },
    async delete(key) {
      upload = null;
      await marking;
      await uploads.delete(sentKey(key));
      await uploads.delete(key);
    },
  };
  return {
    store,
    markSent() {
      if (upload === null) return;
      const { key, url } = upload;
      // Without this record the next run shows less, but works the same.
      marking = uploads.set(sentKey(key), url).catch(() => undefined);
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
