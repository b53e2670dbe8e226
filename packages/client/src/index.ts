export type {
  Asset,
  AssetList,
  Event,
  EventType,
  Fetch as UrlFetch,
  FetchStatus,
  Format,
  FormatList,
  Job,
  JobState,
  Manifest,
  ManifestRendition,
  Media,
  MediaDetail,
  MediaExplanation,
  MediaFailure,
  MediaKind,
  MediaRendition,
  MediaStatus,
  MediaVerification,
  Migration,
  MigrationPhase,
  MigrationRequest,
  MigrationState,
  ObjectHealth,
  PlannedPreset,
  Problem,
  ProblemCode,
  ProblemIssue,
  ProcessingAttempt,
  ProgramRun,
  Purge,
  PurgeReceipt,
  PurgeResult,
  Region,
  RegionChange,
  RegionDetail,
  RegionDetailList,
  RegionList,
  RegionNode,
  Rendition,
  RenditionList,
  RenditionState,
  Repair,
  ServiceStatus,
  Status,
  StatusComponent,
  VersionIndex,
  Worker as JobWorker,
  WorkerList,
} from '@mds/contract';
export { type Client, createClient, type DownloadOptions, type GetOptions } from './client.ts';
export type { ControlCache, PurgeOptions } from './control-cache.ts';
export type { ControlClient, DetailListOptions, Ingested, IngestOptions, VerifyOptions } from './control-client.ts';
export type { ControlFetches, FetchListOptions, FetchProgress, IngestUrlOptions } from './control-fetches.ts';
export type { ControlJobs, JobListOptions } from './control-jobs.ts';
export type { ControlMigrations } from './control-migrations.ts';
export type { ControlRegions, WrittenRegion } from './control-regions.ts';
export type { ControlWorkers } from './control-workers.ts';
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
export type { ClientOptions, Fetch } from './options.ts';
export type { Page, PagePromise } from './page.ts';
export type { AssetListOptions, ListOptions, ReadClient } from './read-client.ts';
export { createFileUploadStore } from './resumable/file-upload-store.ts';
export type { ResumableBody, ResumableProgress, SeekableContent, UploadOptions } from './resumable/upload-options.ts';
export { createWebUploadStore, type UploadStore, type WebStorage } from './resumable/upload-store.ts';
export type { RequestOptions } from './transport.ts';
export type { UploadBody, UploadContent, UploadProgress } from './upload-source.ts';
export type { MediaProgress, WaitOptions } from './wait-until-ready.ts';
