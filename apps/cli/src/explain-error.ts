import { connectionClause } from './connection-words.ts';
import type { Context } from './context.ts';
import { CliError, EXIT, StoppedError } from './exit-codes.ts';
import { Interruption } from './io.ts';
import { MOVED_ADVICE } from './moved-deployment.ts';
import { humanDuration } from './output/quantities.ts';
import { shownUrl } from './output/shown-url.ts';

/** An error as the user sees it. */
export interface Explanation {
  message: string;
  /** Advice, one line each. */
  hints: readonly string[];
  exitCode: number;
  /** The service's problem document, if it sent one. */
  problem: unknown;
}

/** Explains an error: a message, advice, and the exit code. */
export async function explainError(error: unknown, context: Context): Promise<Explanation> {
  const explained = (message: string, exitCode: number, hints: readonly string[] = [], problem: unknown = null) => ({
    message,
    hints,
    exitCode,
    problem,
  });
  if (error instanceof StoppedError) {
    const own = await explainError(error.cause, context);
    return { ...own, hints: [...error.hints, ...own.hints] };
  }
  if (error instanceof Interruption) return explained(error.message, error.exitCode);
  if (error instanceof CliError) return explained(error.message, error.exitCode, error.hints);

  const client = await import('@mds/client');
  if (error instanceof client.ConnectionError) {
    return explained(
      `No answer from ${shownUrl(context.url)}: ${connectionClause(error.code) ?? error.message}.`,
      EXIT.failed,
      [
        'If the service is not running, start it with `npm start`; if it is elsewhere, give its address with --url or MDS_URL.',
      ],
    );
  }
  if (error instanceof client.UnauthorizedError) {
    return explained(
      `The service does not accept the token from ${(await context.token()).source}.`,
      EXIT.notAuthorised,
      ['Its own token is in the file control-token of its data folder, unless it was started with MDS_CONTROL_TOKEN.'],
      error.problem,
    );
  }
  if (error instanceof client.ForbiddenError) {
    return explained(`The token does not allow this: ${detail(error)}`, EXIT.notAuthorised, [], error.problem);
  }
  const advice = ADVICE[error instanceof client.ApiError ? (error.code ?? '') : ''] ?? [];
  if (error instanceof client.NotFoundError) return explained(detail(error), EXIT.notFound, advice, error.problem);
  if (error instanceof client.ApiError) {
    const message = detail(error);
    // The API treats it as a wrong query parameter. For the user a region does not exist, as in other commands.
    if (error.code === 'unknown_region') return explained(message, EXIT.notFound, advice, error.problem);
    const issues = error.issues
      .filter((issue) => !message.includes(issue.message))
      .map(({ in: place, path, message }) => `${place} ${path}: ${message}`);
    // A program can wait, because its calls may reach the new service later. A user has to act.
    const isLater = error.retryAfterMs !== null && error.code !== 'deployment_moved';
    const pause = isLater ? humanDuration(error.retryAfterMs) : '';
    const hints = [...issues, ...(pause ? [`Try again in ${pause}.`] : []), ...advice];
    return explained(message, EXIT.failed, hints, error.problem);
  }
  if (error instanceof client.ConfigurationError) {
    return explained(error.message, EXIT.usage, [
      `The address ${shownUrl(context.url)} is from --url or MDS_URL, the token from --token, MDS_TOKEN or the data folder.`,
    ]);
  }
  if (error instanceof client.MdsError) return explained(error.message, EXIT.failed);
  if (error instanceof Error && 'code' in error) return explained(systemSentence(error), EXIT.failed);
  // An unexpected error: the stack trace helps most.
  const trace = error instanceof Error ? (error.stack ?? '').split('\n').slice(1, 8) : [];
  return explained(
    `Internal error of mds: ${String(error)}`,
    EXIT.failed,
    trace.map((line) => line.trim()),
  );
}

const SYSTEM: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of the path is a file, not a folder',
  EISDIR: 'it is a folder',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  ENOSPC: 'the disk is full',
  EDQUOT: 'your disk quota is used up',
  EROFS: 'the disk is read-only',
  ENAMETOOLONG: 'the name is too long',
  EEXIST: 'it already exists',
  EMFILE: 'too many files are open',
};

/** Describes an error of the operating system. */
export function systemSentence(error: Error & { code?: unknown; path?: unknown }): string {
  const why = SYSTEM[String(error.code)];
  if (why === undefined) return error.message;
  return typeof error.path === 'string' ? `${error.path}: ${why}.` : `${why[0]?.toUpperCase()}${why.slice(1)}.`;
}

const REGIONS = ['Known regions: mds regions list --all. Add a region with mds regions add.'];

/** Advice in terms of this program for problem codes whose messages only mention the API. */
const ADVICE: Readonly<Record<string, readonly string[]>> = {
  region_not_found: REGIONS,
  unknown_region: REGIONS,
  deployment_moved: MOVED_ADVICE,
  node_not_found: ['Known nodes: mds regions list --all'],
};

function detail(error: {
  problem: { detail: string; code: string } | null;
  requestId: string | null;
  message: string;
}): string {
  if (!error.problem) return error.message;
  const request = error.requestId ? `, request ${error.requestId}` : '';
  return `${error.problem.detail} (${error.problem.code}${request})`;
}
