import type { Problem, ProblemCode } from '@mds/contract';
import { type ApiError, apiError, type RequestLine } from './errors.ts';
import { parseRetryAfterMs } from './retry.ts';
import { PROBLEM_CODE } from './upload-protocol.ts';

/** An error body is read up to here, in characters: a proxy's page is not worth more. */
const MAX_ERROR_TEXT = 64 * 1024;

/** Whether a Content-Type is JSON's own or a `+json` type. */
function isJson(contentType: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json\b/i.test(contentType);
}

/**
 * The error that an answer of 400 or above stands for. Takes its body.
 * @throws what the connection fails with while the body is read
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
    // Which codes there are, is the service's promise.
    code: code as ProblemCode | null,
    requestId: problem?.request_id ?? response.headers.get('x-request-id'),
    retryAfterMs: parseRetryAfterMs(response.headers.get('retry-after'), Date.now()),
    reason: reasonOf(line, problem, text, contentType),
  });
}

function reasonOf(line: RequestLine, problem: Problem | null, text: string, contentType: string): string {
  if (problem) return problem.detail || problem.title;
  // RFC 9110, 9.3.2: there is no body, whoever answers.
  if (line.method === 'HEAD') return 'answers to HEAD have no body that could say why';
  return `not an answer of this service, but ${describe(text, contentType)}`;
}

/**
 * The JSON of a good answer; undefined for one without a body (204, HEAD).
 * @throws ApiError where the body is not JSON: something else than the service answers at this address
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
  // Members beyond these are read where they are needed; RFC 9457, 3.1 has every one of them optional.
  return { ...(value as Problem), detail: typeof detail === 'string' ? detail : title };
}

/** Says what a body is that is not ours: its type, and the title of a page or the beginning of a text. */
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
