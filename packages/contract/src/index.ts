import { initContract } from '@ts-rest/core';
import { assetsRoutes } from './assets.ts';
import { controlCacheRoutes } from './control-cache.ts';
import { controlMediaRoutes } from './control-media.ts';
import { controlRegionsRoutes } from './control-regions.ts';
import { edgeStreamsRoutes, edgesRoutes } from './edges.ts';
import { eventsRoutes } from './events.ts';
import { fetchesRoutes } from './fetches.ts';
import { formatsRoutes } from './formats.ts';
import { jobsRoutes } from './jobs.ts';
import { mediaRoutes } from './media.ts';
import { migrationsRoutes } from './migrations.ts';
import { CONTROL_API_PREFIX, READ_API_PREFIX } from './prefixes.ts';
import { regionsRoutes } from './regions.ts';
import { renditionsRoutes } from './renditions.ts';
import { statusRoutes } from './status.ts';
import { versionIndexRoutes } from './version-index.ts';
import { workersRoutes } from './workers.ts';

const c = initContract();
const controlOptions = { pathPrefix: CONTROL_API_PREFIX, strictStatusCodes: true } as const;

/**
 * Every route of the service, by API and resource: the only list of resources. OpenAPI and the server iterate over this tree, and the
 * client takes its types from it. A route without a handler in the server does not compile.
 */
export const api = {
  /** The public read-only API: exactly the seven GETs of the promised read interface. */
  read: c.router(
    {
      media: mediaRoutes,
      regions: regionsRoutes,
      assets: assetsRoutes,
      status: statusRoutes,
      index: versionIndexRoutes,
      formats: formatsRoutes,
      renditions: renditionsRoutes,
    },
    { pathPrefix: READ_API_PREFIX, strictStatusCodes: true },
  ),
  /** The operator's API. Each route needs a bearer token. */
  control: c.router(
    {
      media: controlMediaRoutes,
      fetches: fetchesRoutes,
      jobs: jobsRoutes,
      workers: workersRoutes,
      regions: controlRegionsRoutes,
      cache: controlCacheRoutes,
      migrations: migrationsRoutes,
      edges: edgesRoutes,
    },
    controlOptions,
  ),
  /** Routes of the control API that answer with raw bytes or an endless stream, so server and client handle the response themselves. */
  streams: c.router({ events: eventsRoutes, edgeStreams: edgeStreamsRoutes }, controlOptions),
};

export { Asset, AssetList, CacheStatus } from './assets.ts';
export { Purge, PurgeReceipt, PurgeResult } from './control-cache.ts';
export {
  MediaDetail,
  MediaDetailList,
  MediaRendition,
  MediaVerification,
  ObjectHealth,
  RenditionState,
  Repair,
  TokenScope,
} from './control-media.ts';
export { RegionChange, RegionDetail, RegionDetailList, RegionNode } from './control-regions.ts';
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
  MAX_REPORTED_DELIVERIES,
  PIECE_BYTES,
  ReportedDelivery,
} from './edges.ts';
export { Event, type EventType } from './events.ts';
export {
  Fetch,
  FetchId,
  FetchList,
  FetchRequest,
  FetchStatus,
  MAX_FETCH_WAIT_S,
  MAX_SOURCE_URL_LENGTH,
} from './fetches.ts';
export { Format, FormatList } from './formats.ts';
export { Job, JobList, JobState } from './jobs.ts';
export { Manifest, ManifestRendition } from './manifest.ts';
export { Media, MediaList, MediaStatus } from './media.ts';
export { MediaExplanation, PlannedPreset, ProcessingAttempt, ProgramRun } from './media-explanation.ts';
export { MediaFailure } from './media-failure.ts';
export {
  Migration,
  MigrationPhase,
  MigrationRequest,
  MigrationState,
} from './migrations.ts';
export { CONTROL_API_PREFIX, READ_API_PREFIX } from './prefixes.ts';
export { PROBLEM_CONTENT_TYPE, PROBLEMS, Problem, ProblemCode, ProblemIssue } from './problem.ts';
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
export { MAX_LISTED_WORKERS, Worker, WorkerList } from './workers.ts';
