import { initContract } from '@ts-rest/core';
import { z } from 'zod';

/**
 * Every problem code of the service, with its HTTP status and title. Codes are stable, so clients may branch on them.
 */
export const PROBLEMS = {
  invalid_request: { status: 400, title: 'The request is not valid' },
  invalid_cursor: { status: 400, title: 'The cursor is not valid' },
  unknown_region: { status: 400, title: 'The region does not exist' },
  content_digest_mismatch: { status: 400, title: 'The body does not match its digest' },
  incomplete_body: { status: 400, title: 'The body ended early' },
  unauthorized: { status: 401, title: 'A valid token is required' },
  forbidden: { status: 403, title: 'The token does not allow this' },
  not_found: { status: 404, title: 'Not found' },
  media_not_found: { status: 404, title: 'The media object does not exist' },
  upload_not_found: { status: 404, title: 'The upload does not exist' },
  rendition_not_found: { status: 404, title: 'The rendition does not exist' },
  fetch_not_found: { status: 404, title: 'The fetch does not exist' },
  node_not_found: { status: 404, title: 'The node does not exist' },
  region_not_found: { status: 404, title: 'The region does not exist' },
  rendition_not_ready: { status: 404, title: 'The rendition is not ready yet' },
  method_not_allowed: { status: 405, title: 'The method is not allowed here' },
  not_acceptable: { status: 406, title: 'No acceptable representation' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  state_conflict: { status: 409, title: 'The current state does not allow this' },
  node_alive: { status: 409, title: 'The node is alive' },
  region_in_use: { status: 409, title: 'The region is in use' },
  idempotency_conflict: { status: 409, title: 'The Idempotency-Key was used for another request' },
  upload_offset_conflict: { status: 409, title: 'The upload is at another offset' },
  upload_gone: { status: 410, title: 'The upload has ended' },
  precondition_failed: { status: 412, title: 'The representation is not the expected one' },
  tus_version_unsupported: { status: 412, title: 'The version of the upload protocol is not supported' },
  payload_too_large: { status: 413, title: 'The body is too large' },
  unsupported_content_type: { status: 415, title: 'The Content-Type is not supported here' },
  range_not_satisfiable: { status: 416, title: 'The range is outside the representation' },
  misdirected_request: { status: 421, title: 'The request belongs to another service' },
  empty_file: { status: 422, title: 'The file is empty' },
  unsupported_format: { status: 422, title: 'The format of the file is not accepted' },
  unsupported_codec: { status: 422, title: 'The codec is not accepted' },
  corrupt_media: { status: 422, title: 'The file is damaged' },
  too_many_pixels: { status: 422, title: 'The picture has too many pixels' },
  too_many_frames: { status: 422, title: 'The animation has too many frames' },
  too_long: { status: 422, title: 'The media object is too long' },
  unsafe_media: { status: 422, title: 'The file contains something that is not allowed' },
  unidentifiable_media: { status: 422, title: 'The file could not be identified safely' },
  source_not_allowed: { status: 422, title: 'The source is not allowed' },
  checksum_mismatch: { status: 422, title: 'The file does not match its checksum' },
  upload_locked: { status: 423, title: 'The upload is in use' },
  headers_too_large: { status: 431, title: 'The request headers are too large' },
  too_many_uploads: { status: 429, title: 'Too many open uploads' },
  rate_limited: { status: 429, title: 'Too many requests' },
  too_many_fetches: { status: 429, title: 'Too many fetches are waiting' },
  internal_error: { status: 500, title: 'Internal error' },
  object_corrupt: { status: 500, title: 'The stored object is damaged' },
  source_unreachable: { status: 502, title: 'The source cannot be reached' },
  source_refused: { status: 502, title: 'The source refused the file' },
  source_incomplete: { status: 502, title: 'The source sent an incomplete file' },
  overloaded: { status: 503, title: 'The service is overloaded' },
  unavailable: { status: 503, title: 'Temporarily unavailable' },
  deployment_moved: { status: 503, title: 'The deployment was moved' },
  source_timeout: { status: 504, title: 'The source took too long' },
  not_held: { status: 504, title: 'Not in this cache' },
  insufficient_storage: { status: 507, title: 'The storage is full' },
} as const satisfies Record<string, { status: number; title: string }>;

/** A stable machine-readable problem code. */
export const ProblemCode = z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]);
export type ProblemCode = keyof typeof PROBLEMS;

/** The place of one invalid input, and what is wrong with it. */
export const ProblemIssue = z.strictObject({
  in: z.enum(['path', 'query', 'header', 'body']),
  path: z.string(),
  message: z.string(),
});
export type ProblemIssue = z.infer<typeof ProblemIssue>;

/** The body of every error: RFC 9457 problem details, with `code`, `request_id` and, for invalid input, `errors`. */
export const Problem = z
  .strictObject({
    type: z.string().meta({ description: 'URI reference that names the problem type' }),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string().meta({ description: 'What is wrong, and what to do' }),
    instance: z.string().meta({ description: 'The requested path' }),
    code: ProblemCode,
    request_id: z.string(),
    errors: z.array(ProblemIssue).optional(),
  })
  .meta({ id: 'Problem' });
export type Problem = z.infer<typeof Problem>;

/** Media type of problem documents (RFC 9457, section 3). */
export const PROBLEM_CONTENT_TYPE = 'application/problem+json';

const c = initContract();
const problem = c.otherResponse({ contentType: PROBLEM_CONTENT_TYPE, body: Problem });

/** Problems that any route may answer with. */
export const commonProblems = { 400: problem, 429: problem, 500: problem, 503: problem } as const;
/** Problems that any route of the control API may answer with. */
export const controlProblems = { ...commonProblems, 401: problem, 403: problem } as const;
export { problem as problemResponse };
