import { connectionClause } from './connection-words.ts';
import type { Context } from './context.ts';
import { CliError, EXIT, StoppedError } from './exit-codes.ts';
import { Interruption } from './io.ts';
import { MOVED_ADVICE } from './moved-deployment.ts';
import { humanDuration } from './output/quantities.ts';
import { shownUrl } from './output/shown-url.ts';

/** An error in words for its reader. */
export interface Explanation {
  message: string;
  /** What to do about it, one line each. */
  hints: readonly string[];
  exitCode: number;
  /** The service's problem document, where it sent one. */
  problem: unknown;
}

/** Says what went wrong, what to do about it, and how the program ends for it. */
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
      ['Its own is in the file control-token of its data folder, unless it was started with MDS_CONTROL_TOKEN.'],
      error.problem,
    );
  }
  if (error instanceof client.ForbiddenError) {
    return explained(`The token does not allow this: ${detail(error)}`, EXIT.notAuthorised, [], error.problem);
  }
  const advice = ADVICE[error instanceof client.ApiError ? (error.code ?? '') : ''] ?? [];
  if (error instanceof client.NotFoundError) return explained(detail(error), EXIT.notFound, advice, error.problem);
  if (error instanceof client.ApiError) {
    const said = detail(error);
    // Of a query it is a wrong parameter; here it is something that is not there, as everywhere else.
    if (error.code === 'unknown_region') return explained(said, EXIT.notFound, advice, error.problem);
    const issues = error.issues
      .filter((issue) => !said.includes(issue.message))
      .map(({ in: place, path, message }) => `${place} ${path}: ${message}`);
    // That is for programs, whose calls may lead elsewhere by then.
    const isLater = error.retryAfterMs !== null && error.code !== 'deployment_moved';
    const pause = isLater ? humanDuration(error.retryAfterMs) : '';
    const hints = [...issues, ...(pause ? [`Try again in ${pause}.`] : []), ...advice];
    return explained(said, EXIT.failed, hints, error.problem);
  }
  if (error instanceof client.ConfigurationError) {
    return explained(error.message, EXIT.usage, [
      `The address ${shownUrl(context.url)} is from --url or MDS_URL, the token from --token, MDS_TOKEN or the data folder.`,
    ]);
  }
  if (error instanceof client.MdsError) return explained(error.message, EXIT.failed);
  if (error instanceof Error && 'code' in error) return explained(systemSentence(error), EXIT.failed);
  // Nothing that anybody foresaw: where it happened is what helps.
  const trace = error instanceof Error ? (error.stack ?? '').split('\n').slice(1, 8) : [];
  return explained(
    `A fault of mds itself: ${String(error)}`,
    EXIT.failed,
    trace.map((line) => line.trim()),
  );
}

const SYSTEM: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of the path is a file, not a folder',
  EISDIR: 'it is a folder',
  EACCES: 'you may not do this there',
  EPERM: 'you may not do this there',
  ENOSPC: 'no room is left on that disk',
  EDQUOT: 'your share of that disk is used up',
  EROFS: 'that disk can only be read',
  ENAMETOOLONG: 'the name is too long',
  EEXIST: 'it is there already',
  EMFILE: 'too many files are open',
};

/** What the operating system refused, in words. */
export function systemSentence(error: Error & { code?: unknown; path?: unknown }): string {
  const why = SYSTEM[String(error.code)];
  if (why === undefined) return error.message;
  return typeof error.path === 'string' ? `${error.path}: ${why}.` : `${why[0]?.toUpperCase()}${why.slice(1)}.`;
}

const REGIONS = ['Regions that are known: mds regions list --all. Another one is added with mds regions add.'];

/** What to do with this program, by the code of the service's problem, which speaks of its API alone. */
const ADVICE: Readonly<Record<string, readonly string[]>> = {
  region_not_found: REGIONS,
  unknown_region: REGIONS,
  deployment_moved: MOVED_ADVICE,
  node_not_found: ['Nodes that are known: mds regions list --all'],
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
