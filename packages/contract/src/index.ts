export { Asset, AssetList, CacheStatus } from './assets.ts';
export {
  CONTROL_API_PREFIX,
  controlApi,
  MediaDetail,
  MediaDetailList,
  MediaRendition,
  MediaVerification,
  ObjectHealth,
  RenditionState,
  Repair,
  TokenScope,
} from './control-api.ts';
export { controlCacheApi, Purge, PurgeReceipt, PurgeResult } from './control-cache.ts';
export { controlRegionsApi, RegionChange, RegionDetail, RegionDetailList, RegionNode } from './control-regions.ts';
export {
  buildDeliveryPath,
  DELIVERY_CACHE_CONTROL,
  DELIVERY_PREFIX,
  type DeliveryPath,
  isRenditionFile,
  parseDeliveryPath,
  renditionPath,
} from './delivery-path.ts';
export {
  EdgeEvent,
  EdgeReport,
  EdgeReportReceipt,
  EdgeRepresentation,
  EdgeReset,
  EdgeResource,
  edgeStreamsApi,
  edgesApi,
  MAX_REPORTED_DELIVERIES,
  PIECE_BYTES,
  ReportedDelivery,
} from './edges.ts';
export { Event, type EventType, eventsApi } from './events.ts';
export {
  Fetch,
  FetchId,
  FetchList,
  FetchRequest,
  FetchStatus,
  fetchesApi,
  MAX_FETCH_WAIT_S,
  MAX_SOURCE_URL_LENGTH,
} from './fetches.ts';
export { Format, FormatList } from './formats.ts';
export { Job, JobList, JobState, jobsApi } from './jobs.ts';
export { Manifest, ManifestRendition } from './manifest.ts';
export { Media, MediaList, MediaStatus } from './media.ts';
export { MediaExplanation, PlannedPreset, ProcessingAttempt, ProgramRun } from './media-explanation.ts';
export { MediaFailure } from './media-failure.ts';
export {
  Migration,
  MigrationPhase,
  MigrationRequest,
  MigrationState,
  migrationsApi,
} from './migrations.ts';
export { PROBLEM_CONTENT_TYPE, PROBLEMS, Problem, ProblemCode, ProblemIssue } from './problem.ts';
export { READ_API_PREFIX, readApi } from './read-api.ts';
export { Region, RegionList } from './regions.ts';
export { Rendition, RenditionList } from './renditions.ts';
export { AssetId, Codecs, LIMIT, MediaId, MediaKind, RegionCode, Revision, Timestamp } from './scalars.ts';
export { ServiceStatus, Status, StatusComponent, worstStatus } from './status.ts';
export {
  MEDIA_CREATED_HEADER,
  MEDIA_ID_HEADER,
  PROBLEM_CODE_HEADER,
  TUS_EXTENSIONS,
  TUS_VERSION,
  UPLOAD_METADATA_KEYS,
  UPLOADS_PATH,
  UploadId,
} from './uploads.ts';
export { IndexedResource, VersionIndex } from './version-index.ts';
export { MAX_LISTED_WORKERS, Worker, WorkerList, workersApi } from './workers.ts';
