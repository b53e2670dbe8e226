export { createEngine, type Engine, type EngineOptions, type RenderJob } from './engine.ts';
export { MediaRejectedError, RejectionCode, RenderError, RenderErrorCode } from './errors.ts';
export { findPrograms, type Program, type Programs, ProgramsMissingError, programOnPath } from './ffmpeg/programs.ts';
export { type Format, formats } from './formats.ts';
export { type AudioTrack, type IdentifiedFile, parseIdentified, type Tracks, type VideoTrack } from './identified.ts';
export type { ChildExit, IsolateStats } from './isolate.ts';
export { defaultLimits, type EngineLimits } from './limits.ts';
export { MediaKind } from './media-kind.ts';
export { type PlannedRendition, planRenditions } from './plan.ts';
export { defaultPresets, Preset, PresetsError, parsePresets, presetRevision, recipes } from './presets/presets.ts';
export type { ProvenFormat } from './prove.ts';
export type {
  FailedRendition,
  ProgramRun,
  ReadyRendition,
  RenderedFile,
  RenderProgress,
  RenderResult,
} from './render/result.ts';
