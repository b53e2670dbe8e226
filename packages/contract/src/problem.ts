import { initContract } from '@ts-rest/core';
import { z } from 'zod';

/**
 * Every problem code that the service can answer with, its HTTP status and its title.
 * Codes are part of the contract: stable, and safe to branch on.
 */
export const PROBLEMS = {
  invalid_request: { status: 400, title: 'The request is not valid' },
  invalid_cursor: { status: 400, title: 'The cursor is not one of this service' },
  unknown_region: { status: 400, title: 'There is no such region' },
  content_digest_mismatch: { status: 400, title: 'The body does not match its digest' },
  incomplete_body: { status: 400, title: 'The body ended early' },
  unauthorized: { status: 401, title: 'A valid token is needed' },
  forbidden: { status: 403, title: 'The token does not allow this' },
  not_found: { status: 404, title: 'Not found' },
  media_not_found: { status: 404, title: 'There is no such media object' },
  upload_not_found: { status: 404, title: 'There is no such upload' },
  rendition_not_found: { status: 404, title: 'There is no such rendition' },
  fetch_not_found: { status: 404, title: 'There is no such fetch' },
  node_not_found: { status: 404, title: 'There is no such node' },
  region_not_found: { status: 404, title: 'There is no such region' },
  rendition_not_ready: { status: 404, title: 'The rendition is not ready yet' },
  method_not_allowed: { status: 405, title: 'The method is not allowed here' },
  not_acceptable: { status: 406, title: 'No acceptable representation' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  state_conflict: { status: 409, title: 'The state does not allow this' },
  node_alive: { status: 409, title: 'The node is alive' },
  region_in_use: { status: 409, title: 'The region is being served' },
  idempotency_conflict: { status: 409, title: 'The Idempotency-Key was used for another request' },
  upload_offset_conflict: { status: 409, title: 'The upload stands at another offset' },
  upload_gone: { status: 410, title: 'The upload is over' },
  precondition_failed: { status: 412, title: 'The representation is another one than the request expects' },
  tus_version_unsupported: { status: 412, title: 'The version of the upload protocol is not known here' },
  payload_too_large: { status: 413, title: 'The body is too large' },
  unsupported_content_type: { status: 415, title: 'The Content-Type is not understood here' },
  range_not_satisfiable: { status: 416, title: 'The range lies outside the representation' },
  misdirected_request: { status: 421, title: 'Another service answers this' },
  empty_file: { status: 422, title: 'The file is empty' },
  unsupported_format: { status: 422, title: 'The file is not of an accepted format' },
  unsupported_codec: { status: 422, title: 'The codec is not accepted' },
  corrupt_media: { status: 422, title: 'The file is damaged' },
  too_many_pixels: { status: 422, title: 'The picture is too large' },
  too_many_frames: { status: 422, title: 'The animation has too many frames' },
  too_long: { status: 422, title: 'The media object is too long' },
  unsafe_media: { status: 422, title: 'The file holds what is not allowed in a media object' },
  unidentifiable_media: { status: 422, title: 'The file could not be identified safely' },
  source_not_allowed: { status: 422, title: 'The source may not be fetched from' },
  checksum_mismatch: { status: 422, title: 'The file does not match its checksum' },
  upload_locked: { status: 423, title: 'The upload is in use' },
  headers_too_large: { status: 431, title: 'The head of the request is too large' },
  too_many_uploads: { status: 429, title: 'Too many uploads are open' },
  rate_limited: { status: 429, title: 'Too many requests' },
  too_many_fetches: { status: 429, title: 'Too many fetches wait already' },
  internal_error: { status: 500, title: 'Something went wrong here' },
  object_corrupt: { status: 500, title: 'The stored object is damaged' },
  source_unreachable: { status: 502, title: 'The source cannot be reached' },
  source_refused: { status: 502, title: 'The source did not give the file' },
  source_incomplete: { status: 502, title: 'The source did not give the whole file' },
  overloaded: { status: 503, title: 'Too busy at the moment' },
  unavailable: { status: 503, title: 'Not available at the moment' },
  deployment_moved: { status: 503, title: 'The deployment was moved' },
  source_timeout: { status: 504, title: 'The source took too long' },
  not_held: { status: 504, title: 'Not held by this cache' },
  insufficient_storage: { status: 507, title: 'No room is left on the storage' },
} as const satisfies Record<string, { status: number; title: string }>;

/** A stable machine-readable problem code. */
export const ProblemCode = z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]);
export type ProblemCode = keyof typeof PROBLEMS;

/** Where one piece of bad input stood, and what was wrong with it. */
export const ProblemIssue = z.strictObject({
  in: z.enum(['path', 'query', 'header', 'body']),
  path: z.string(),
  message: z.string(),
});
export type ProblemIssue = z.infer<typeof ProblemIssue>;

/** The body of every error: RFC 9457 problem details, with `code`, `request_id` and, for bad input, `errors`. */
export const Problem = z
  .strictObject({
    type: z.string().meta({ description: 'URI reference that names the problem type' }),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string().meta({ description: 'What was wrong, and what to do' }),
    instance: z.string().meta({ description: 'The path that was asked for' }),
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

/** Answers that any route may give. */
export const commonProblems = { 400: problem, 429: problem, 500: problem, 503: problem } as const;
/** Answers that any route of the control API may give, besides {@link commonProblems}. */
export const controlProblems = { ...commonProblems, 401: problem, 403: problem } as const;
export { problem as problemResponse };
