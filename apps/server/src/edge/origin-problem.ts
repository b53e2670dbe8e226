import { DELIVERY_CACHE_CONTROL, Problem } from '@mds/contract';
import { OPEN_TO_ALL } from '../delivery/representation.ts';
import { AppError } from '../http/app-error.ts';

/** What a node says of what only its origin could answer, while that is away. */
export function originAway(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'This point of presence does not hold what was asked for, and its origin does not answer. Ask again in a few seconds.',
    { cause, headers: { ...OPEN_TO_ALL, 'Retry-After': '5' } },
  );
}

/**
 * The error that an answer of the origin stands for. What the origin says of the path is passed on; what it says of this node (its token,
 * its way of asking) is not the caller's business, and in the log.
 */
export function errorFromOrigin(answer: { status: number; body: Buffer }): AppError {
  const problem = readProblem(answer.body);
  if (problem === null || [400, 401, 403].includes(answer.status)) {
    const said = problem ? `${problem.code}: ${problem.detail}` : answer.body.toString('utf8', 0, 200);
    return originAway(new Error(`the origin refuses this node with ${answer.status}: ${said}`));
  }
  const isAbsent = problem.status === 404;
  return new AppError(problem.code, problem.detail, {
    headers: {
      ...OPEN_TO_ALL,
      ...(isAbsent ? { 'Cache-Control': DELIVERY_CACHE_CONTROL.notFound } : {}),
      ...(problem.status === 503 ? { 'Retry-After': '5' } : {}),
    },
  });
}

function readProblem(body: Buffer): Problem | null {
  try {
    return Problem.parse(JSON.parse(body.toString()));
  } catch {
    // Not a problem document of this version: the status alone speaks.
    return null;
  }
}
