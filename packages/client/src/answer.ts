import type { Problem, ProblemCode } from '@mds/contract';
import { type ApiError, apiError, type RequestLine } from './errors.ts';
import { parseRetryAfterMs } from './retry.ts';
import { PROBLEM_CODE } from './upload-protocol.ts';

/** Maximum characters read of an error body: the page of a proxy is not worth more. */
const MAX_ERROR_TEXT = 64 * 1024;

/** Whether a Content-Type is JSON or a `+json` type. */
function isJson(contentType: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json\b/i.test(contentType);
}

/**
 * Makes the error of an answer with status 400 or above. Reads its body.
 * @throws the error of a connection that breaks while the body is read
 */
export async function errorOf(line: RequestLine, response: Response): Promise<ApiError> {
  const text = await readText(response, MAX_ERROR_TEXT);
  const contentType = response.headers.get('content-type') ?? '';
  const problem = isJson(contentType) ? problemIn(text) : null;
  const code = response.headers.get(PROBLEM_CODE);
  return apiError({
    ...line,
    status: response.status,
    problem,
    // The service promises that this is one of its codes.
    code: code as ProblemCode | null,
    requestId: problem?.request_id ?? response.headers.get('x-request-id'),
    retryAfterMs: parseRetryAfterMs(response.headers.get('retry-after'), Date.now()),
    reason: reasonOf(line, problem, text, contentType),
  });
}

function reasonOf(line: RequestLine, problem: Problem | null, text: string, contentType: string): string {
  if (problem) return problem.detail || problem.title;
  // RFC 9110, 9.3.2: an answer to HEAD has no body.
  if (line.method === 'HEAD') return 'answers to HEAD have no body with the reason';
  return `not an answer of this service, but ${describe(text, contentType)}`;
}

/**
 * The JSON of a successful answer; undefined if it has no body (204, HEAD).
 * @throws ApiError if the body is not JSON: then something other than the service answers at this address
 */
export async function jsonOf(line: RequestLine, response: Response): Promise<unknown> {
  if (response.status === 204) {
    await response.body?.cancel();
    return undefined;
  }
  const contentType = response.headers.get('content-type') ?? '';
  const fail = (text: string) =>
    apiError({
      ...line,
      status: response.status,
      problem: null,
      requestId: response.headers.get('x-request-id'),
      retryAfterMs: null,
      reason: `expected JSON, got ${describe(text, contentType)}; is this the address of the service?`,
    });
  if (!isJson(contentType)) throw fail(await readText(response, MAX_ERROR_TEXT));
  const text = await response.text();
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw fail(text);
  }
}

function problemIn(text: string): Problem | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const { code, title, detail } = value as Partial<Record<string, unknown>>;
  if (typeof code !== 'string' || typeof title !== 'string') return null;
  // RFC 9457, 3.1 makes every member optional; the other ones are checked where they are used.
  return { ...(value as Problem), detail: typeof detail === 'string' ? detail : title };
}

/** Describes a foreign body: its type, with the title of a page or the beginning of a text. */
function describe(text: string, contentType: string): string {
  const type = contentType.split(';')[0]?.trim() || 'a body without Content-Type';
  const title = /<title[^>]*>([^<]*)/i.exec(text)?.[1] ?? (/^\s*</.test(text) ? '' : text);
  const excerpt = title.replace(/\s+/g, ' ').trim().slice(0, 120);
  return text.length === 0 ? 'an empty body' : excerpt ? `${type} ("${excerpt}")` : type;
}

async function readText(response: Response, maxCharacters: number): Promise<string> {
  if (!response.body) return '';
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    if (text.length >= maxCharacters) {
      await reader.cancel();
      return text.slice(0, maxCharacters);
    }
  }
}
