import type { Job, MediaExplanation, PlannedPreset, ProcessingAttempt } from '@mds/client';

const revision = '0a1b2c3d';

function preset(name: string, extension: string, change: Partial<PlannedPreset> = {}): PlannedPreset {
  return { name, extension, revision, decision: 'make', reason: '', width: 0, height: 0, rungs: [], ...change };
}

/** An attempt whose worker died while it ran. */
const lost: ProcessingAttempt = {
  attempt: 1,
  worker: 'worker-4021',
  started_at: '2026-01-31T08:15:00Z',
  ended_at: null,
  outcome: 'lost',
  error: null,
  notes: [],
  timings: { probe: 92 },
  runs: [
    {
      step: 'probe',
      argv: ['ffprobe', '-v', 'error', 'source.mp4'],
      ms: 92,
      cpu_ms: 40,
      max_memory_bytes: 21_000_000,
      outcome: 'ok',
      stderr_tail: [],
    },
  ],
};

const filter = "[0:v]fps=30000/1001,split=2[a][b];[a]scale=640:360[v0];[b]drawtext=text='it''s'[v1]";

/** An attempt whose ladder failed after 8 seconds. */
const failed: ProcessingAttempt = {
  attempt: 2,
  worker: 'worker-4077',
  started_at: '2026-01-31T08:16:00Z',
  ended_at: '2026-01-31T08:16:12Z',
  outcome: 'failed',
  error: { code: 'corrupt_media', message: 'The picture breaks off after 6.2 seconds.', retryable: false },
  notes: ['The audio fits as it is and is copied.'],
  timings: { poster: 412, ladder: 8_140, storyboard: 1_020 },
  runs: [
    {
      step: 'ladder',
      argv: ['ffmpeg', '-hide_banner', '-i', 'source.mp4', '-filter_complex', filter, '-f', 'mp4', 'hls/360p.mp4'],
      ms: 8_140,
      cpu_ms: 15_200,
      max_memory_bytes: 231_000_000,
      outcome: 'exit code 1',
      stderr_tail: ['[h264 @ 0x1] error while decoding MB 12 7', 'source.mp4: Invalid data found'],
    },
  ],
};

/** A video whose second attempt failed. */
export function failedVideo(id: string): MediaExplanation {
  return {
    id,
    kind: 'video',
    status: 'failed',
    waiting_for: null,
    job: null,
    error: failed.error,
    warnings: ['The file ends early.'],
    probe: {
      kind: 'video',
      format: 'mp4',
      contentType: 'video/mp4',
      extension: 'mp4',
      bytes: 12_345_678,
      width: 1080,
      height: 1920,
      durationMs: 12_345,
      frames: 1,
      codecs: { video: 'h264', audio: 'aac' },
      hasAlpha: false,
      orientation: 1,
      tracks: {
        video: {
          index: 0,
          startMs: 0,
          durationMs: 12_345,
          codec: 'h264',
          profile: 'High',
          level: 41,
          pixelFormat: 'yuv420p',
          codedWidth: 1920,
          codedHeight: 1080,
          sampleAspect: { num: 1, den: 1 },
          rotation: 90,
          frameRate: { num: 30_000, den: 1001 },
          variableFrameRate: true,
          frames: 370,
          bitrate: 7_900_000,
          interlaced: false,
          hasAlpha: false,
          hdr: 'hlg',
        },
        audio: [
          {
            index: 1,
            codec: 'aac',
            profile: 'LC',
            channels: 2,
            sampleRate: 48_000,
            bitrate: 128_000,
            language: 'eng',
            isDefault: true,
          },
          {
            index: 2,
            codec: 'ac3',
            profile: null,
            channels: 6,
            sampleRate: 44_100,
            bitrate: null,
            language: null,
            isDefault: false,
          },
        ],
        coverArt: false,
        bitrate: 8_000_000,
      },
      warnings: [],
      somethingNewer: { a: 1 },
    },
    plan: [
      preset('thumb', 'webp', { decision: 'not_applicable', reason: 'The preset is for image; this is video.' }),
      preset('poster', 'jpg', { width: 720, height: 1280 }),
      preset('hls', 'm3u8', {
        width: 1080,
        height: 1920,
        reason: 'High dynamic range is mapped to what every screen shows, and frames come at a constant rate.',
        rungs: [
          { name: '1080p', width: 1080, height: 1920, bitrate: 6_000_000, may_copy: true },
          { name: '360p', width: 360, height: 640, bitrate: 800_000, may_copy: false },
        ],
      }),
      preset('preview', 'webp', { decision: 'skip', reason: 'It lasts less than a second.', width: 270, height: 480 }),
    ],
    attempts: structuredClone([lost, failed]),
  };
}

/** A waiting job with two earlier attempts. */
export function waitingJob(id: string): Job {
  return {
    ...{ object: 'job', id: 'job-7', media_id: id, state: 'queued', priority: 100, attempts: 2, worker: null },
    ...{ due_at: '2026-01-31T08:17:00Z', started_at: null, progress: null },
    last_reason: 'The storage or the database did not answer. Processing continues when they do.',
  };
}

/** A picture in the queue. */
export function queuedPicture(id: string): MediaExplanation {
  return {
    ...{ id, kind: 'image', status: 'queued', waiting_for: 'It is the 3rd in the queue.', error: null, warnings: [] },
    job: waitingJob(id),
    probe: {
      format: 'jpeg',
      content_type: 'image/jpeg',
      bytes: 900,
      width: 40,
      height: 30,
      color_space: 'srgb',
      icc: true,
    },
    plan: [preset('thumb', 'webp', { width: 40, height: 30 })],
    attempts: [],
  };
}
