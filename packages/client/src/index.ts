// All types of the contract. `Fetch` and `Worker` are renamed, because the runtime and the browser use these names.
export type * from '@mds/contract';
export type { Fetch as UrlFetch, Worker as JobWorker } from '@mds/contract';
export { type Client, createClient, type DownloadOptions, type GetOptions } from './client.ts';
export type { ControlCache, PurgeOptions } from './control-cache.ts';
export type { ControlClient, JobListOptions } from './control-client.ts';
export type { ControlFetches, FetchListOptions, FetchProgress, IngestUrlOptions } from './control-fetches.ts';
export type { ControlMedia, DetailListOptions, IngestOptions, VerifyOptions } from './control-media.ts';
export type { ControlMigrations } from './control-migrations.ts';
export type { ControlRegions, WrittenRegion } from './control-regions.ts';
export type { MediaReference, SrcsetMedia, SrcsetOptions, SrcsetPreset, UrlOptions } from './delivery-url.ts';
export {
  isApiError,
  isAuthError,
  isConflictError,
  isConnectionError,
  isFetchFailedError,
  isInvalidRequestError,
  isMdsError,
  isMediaFailedError,
  isNotFoundError,
  isRateLimitError,
  isTimeoutError,
} from './error-guards.ts';
export {
  ApiError,
  ConfigurationError,
  ConflictError,
  ConnectionError,
  FetchFailedError,
  ForbiddenError,
  InvalidRequestError,
  MdsError,
  MediaFailedError,
  MissingTokenError,
  NotFoundError,
  RateLimitError,
  TimeoutError,
  UnauthorizedError,
} from './errors.ts';
export type { EventOf, EventsOptions } from './events.ts';
export { failedRenditions } from './failed-renditions.ts';
export type { Ingested } from './ingested.ts';
export type { ClientOptions, Fetch } from './options.ts';
export type { Page, PagePromise } from './page.ts';
export type { AssetListOptions, ListOptions, ReadClient } from './read-client.ts';
export { createFileUploadStore } from './resumable/file-upload-store.ts';
export type {
  ResumableBody,
  ResumableProgress,
  SeekableContent,
  UploadOptions,
  UploadStore,
} from './resumable/upload-options.ts';
export { createWebUploadStore, type WebStorage } from './resumable/upload-store.ts';
export type { RequestOptions } from './transport.ts';
export type { UploadBody, UploadContent, UploadProgress } from './upload-source.ts';
export type { MediaProgress, WaitOptions } from './wait-until-ready.ts';
