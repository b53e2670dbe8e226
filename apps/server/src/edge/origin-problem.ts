import { DELIVERY_CACHE_CONTROL, Problem } from '@mds/contract';
import { AppError } from '../base/app-error.ts';
import { OPEN_TO_ALL } from '../delivery/representation.ts';
import { pathOf } from '../http/request-path.ts';

/** What a node says of what only its origin could answer, while that does not; why not is in the log. */
export function originAway(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'This point of presence does not hold what was asked for, and its origin does not serve it at the moment. Ask again in a few seconds.',
    { cause, headers: { ...OPEN_TO_ALL, 'Retry-After': '5' } },
  );
}

/** What a media delivery service says of paths at which it has nothing. `not_found` alone could be said of the way of asking. */
const ABSENT = ['media_not_found', 'rendition_not_found', 'rendition_not_ready'];

/** What the origin says of a delivery path at which there is nothing; null: the answer does not say that. */
export function absenceIn(answer: { status: number; body: Buffer }, target: string): AppError | null {
  const problem = problemIn(answer, target);
  if (problem === null || problem.status !== 404 || !ABSENT.includes(problem.code)) return null;
  return new AppError(problem.code, problem.detail, {
    headers: { ...OPEN_TO_ALL, 'Cache-Control': DELIVERY_CACHE_CONTROL.notFound },
  });
}

/**
 * The problem document that an answer consists of; null where it is none that a media delivery service gives to what was asked: one
 * that is reached under another path than it knows of says that there is nothing, and what it was asked for.
 */
export function problemIn(answer: { status: number; body: Buffer }, target: string): Problem | null {
  let problem: Problem;
  try {
    problem = Problem.parse(JSON.parse(answer.body.toString()));
  } catch {
    // Another service's, or of another version: the status alone speaks.
    return null;
  }
  if (problem.status !== answer.status) return null;
  const isOfTarget = pathOf(target).slice(0, 1024) === problem.instance;
  return problem.code === 'not_found' && !isOfTarget ? null : problem;
}
