import { DELIVERY_CACHE_CONTROL, Problem } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import { OPEN_TO_ALL } from '../delivery/representation.ts';
import { pathOf } from '../http/request-path.ts';

/** The error for requests that only the origin can answer, while it does not. The log has the reason. */
export function originAway(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'This point of presence does not hold what was asked for, and its origin does not serve it at the moment. Ask again in a few seconds.',
    { cause, headers: { ...OPEN_TO_ALL, 'Retry-After': '5' } },
  );
}

/** Codes of a media delivery service for paths at which it has nothing. `not_found` may be about the request itself. */
const ABSENT = ['media_not_found', 'rendition_not_found', 'rendition_not_ready'];

/** The error for a delivery path at which the origin has nothing; null if the answer is something else. */
export function absenceIn(answer: { status: number; body: Buffer }, target: string): AppError | null {
  const problem = problemIn(answer, target);
  if (problem === null || problem.status !== 404 || !ABSENT.includes(problem.code)) return null;
  return new AppError(problem.code, problem.detail, {
    headers: { ...OPEN_TO_ALL, 'Cache-Control': DELIVERY_CACHE_CONTROL.notFound },
  });
}

/**
 * The problem document of an answer; null if a media delivery service would not give it to this request. A service behind a proxy that
 * changes the path answers `not_found`, with the path that it received.
 */
export function problemIn(answer: { status: number; body: Buffer }, target: string): Problem | null {
  let problem: Problem;
  try {
    problem = Problem.parse(JSON.parse(answer.body.toString()));
  } catch {
    // It is of another program or version. Only the status counts.
    return null;
  }
  if (problem.status !== answer.status) return null;
  const isOfTarget = pathOf(target).slice(0, 1024) === problem.instance;
  return problem.code === 'not_found' && !isOfTarget ? null : problem;
}
