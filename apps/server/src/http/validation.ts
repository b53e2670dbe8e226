import type { ProblemCode, ProblemIssue } from '@mds/contract';
import { LIMIT } from '@mds/contract';
import type { AppRoute } from '@ts-rest/core';
import type { RequestValidationError } from '@ts-rest/express';
import type { NextFunction } from 'express';
import { AppError } from '../base/app-error.ts';
import { metadataOf } from './contract-routes.ts';

/** Query parameters with their own problem code. */
const CODES: Record<string, ProblemCode> = { cursor: 'invalid_cursor', region: 'unknown_region' };

/** A malformed id in the path means that the resource does not exist. */
const PATH_CODES: Record<string, ProblemCode> = { id: 'media_not_found', fetch: 'fetch_not_found' };

/** Messages for parameters whose schema has none in words. */
const WORDS: Record<string, string> = {
  limit: `must be a whole number from ${LIMIT.min} to ${LIMIT.max}`,
  cursor: 'must be the next_cursor of a previous answer, unchanged',
  region: 'must be a region code such as fra1',
  id: 'must be med_ and 26 lower-case letters and digits',
  fetch: 'must be fch_ and 26 lower-case letters and digits',
  source_url: 'must be an http or https URL of at most 8192 characters',
  duplicate: 'must be existing or allow',
  filename: 'must be 1 to 255 characters',
  'idempotency-key': 'must be 1 to 255 characters',
};

/** The used part of a zod issue. */
interface Issue {
  code?: string | undefined;
  /** Unknown keys of an object, if that is the issue. */
  keys?: readonly string[] | undefined;
  path?: ReadonlyArray<PropertyKey | { key: PropertyKey }> | undefined;
  message: string;
}

/** A readable error for a request that does not match the contract. */
export function invalidRequest(error: RequestValidationError): AppError {
  const parts = [
    ['path', error.pathParams],
    ['query', error.query],
    ['header', error.headers],
    ['body', error.body],
  ] as const;
  const issues: ProblemIssue[] = [];
  for (const [where, found] of parts) {
    for (const issue of ((found?.issues ?? []) as readonly Issue[]).flatMap(wordsOf)) {
      // A parameter may break several rules at once; one message is enough.
      if (!issues.some((other) => other.in === where && other.path === issue.path))
        issues.push({ in: where, ...issue });
    }
  }
  return refusal(codeOf(issues), issues, error);
}

/** The path and message of each invalid input. */
function wordsOf({ code, keys = [], path = [], message }: Issue): { path: string; message: string }[] {
  const names = path.map((key) => String(typeof key === 'object' ? key.key : key));
  if (code === 'unrecognized_keys') {
    return keys.map((key) => ({ path: [...names, key].join('.'), message: 'is unknown' }));
  }
  const name = names.join('.');
  if (name === '' && code === 'invalid_type') return [{ path: '', message: 'must be a JSON object' }];
  return [{ path: name, message: WORDS[name] ?? message }];
}

/** The code of the input, if exactly one input is wrong and has its own code. */
function codeOf(issues: ProblemIssue[]): ProblemCode {
  const only = issues.length === 1 ? issues[0] : undefined;
  const codes = only?.in === 'path' ? PATH_CODES : only?.in === 'query' ? CODES : {};
  return (only && codes[only.path]) ?? 'invalid_request';
}

function refusal(code: ProblemCode, issues: ProblemIssue[], cause?: unknown): AppError {
  const sentence = issues
    .map(({ in: where, path, message }) => `${path === '' ? `The ${where}` : `${PLACES[where]} ${path}`} ${message}`)
    .join('; ');
  return new AppError(code, sentence === '' ? 'The request is not valid.' : `${sentence}.`, { cause, issues });
}

const PLACES: Record<ProblemIssue['in'], string> = {
  path: 'In the path,',
  query: 'The query parameter',
  header: 'The header',
  body: 'In the body,',
};

/** Refuses a repeated query parameter, because its value is ambiguous. Unknown parameters are ignored. */
export function refuseRepeatedParameters(
  req: { tsRestRoute: AppRoute; query: Record<string, unknown> },
  _res: unknown,
  next: NextFunction,
): void {
  const issues: ProblemIssue[] = [];
  for (const name of queryParametersOf(req.tsRestRoute)) {
    if (Array.isArray(req.query[name])) {
      issues.push({ in: 'query', path: name, message: 'must be given only once' });
    }
  }
  next(issues.length === 0 ? undefined : refusal('invalid_request', issues));
}

function queryParametersOf(route: AppRoute): string[] {
  const shape = (route.query as { shape?: Record<string, unknown> } | undefined)?.shape;
  return shape ? Object.keys(shape) : (metadataOf(route).query ?? []);
}
