import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { TokenScope } from '@mds/contract';
import type { NextFunction, Request, Response } from 'express';
import { AppError } from '../base/app-error.ts';
import type { ProjectRepository, TokenRecord } from '../db/project-repository.ts';

const REALM = 'Bearer realm="mds"';
/** The project of the first operator token, to which the deployment as a whole belongs. */
const DEPLOYMENT_PROJECT = 'default';
const tokens = new WeakMap<IncomingMessage, CallerToken>();

/** The token of a request, with its hash. */
export type CallerToken = TokenRecord & { sha256: string };

/** The hash under which a token is stored; the token itself is stored nowhere. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Refuses a request without a valid bearer token (RFC 6750, 2.1 and 3). */
export function requireToken(projects: Pick<ProjectRepository, 'findToken'>) {
  return async (req: Request, _res: Response, next: NextFunction): Promise<void> => {
    const field = req.headers.authorization;
    // RFC 6750, 3.1: the answer to a request without credentials has a challenge, but no error code.
    if (field === undefined) throw unauthorized('Send a token: Authorization: Bearer <token>.', '');
    const credentials = /^bearer +([\w.~+/-]+=*)\s*$/i.exec(field)?.[1];
    if (credentials === undefined) {
      throw unauthorized('The Authorization header is not of the form "Bearer <token>".', ', error="invalid_request"');
    }
    const sha256 = hashToken(credentials);
    const token = await projects.findToken(sha256);
    if (token === null) {
      throw unauthorized(
        'This service does not know the token. The first token is in the file control-token of the data folder, or in MDS_CONTROL_TOKEN.',
        ', error="invalid_token", error_description="unknown token"',
      );
    }
    tokens.set(req, { ...token, sha256 });
    next();
  };
}

/** The token of a request that passed {@link requireToken}. */
export function tokenOf(req: IncomingMessage): CallerToken {
  const token = tokens.get(req);
  if (!token) throw new Error('a handler of the control API was mounted without authentication');
  return token;
}

/** Refuses a token whose scope does not suffice; `operate` includes `ingest`. */
export function requireScope(req: IncomingMessage, needed: TokenScope): void {
  const { scope } = tokenOf(req);
  if (scope === needed || scope === 'operate') return;
  throw new AppError(
    'forbidden',
    `This token has the scope ${scope}. This request needs a token with the scope ${needed}.`,
    {
      headers: { 'WWW-Authenticate': `${REALM}, error="insufficient_scope", scope="${needed}"` },
    },
  );
}

/**
 * Refuses tokens of other projects than the deployment's own, because regions, nodes and whole caches belong to no single project. The
 * token also needs the scope `operate`.
 */
export function requireDeploymentOperator(req: IncomingMessage): void {
  requireScope(req, 'operate');
  if (tokenOf(req).projectId === DEPLOYMENT_PROJECT) return;
  throw new AppError(
    'forbidden',
    'This request affects the whole deployment, but the token belongs to one of its projects. Use a token of the deployment operator.',
    { headers: { 'WWW-Authenticate': `${REALM}, error="insufficient_scope", scope="operate"` } },
  );
}

function unauthorized(detail: string, parameters: string): AppError {
  return new AppError('unauthorized', detail, { headers: { 'WWW-Authenticate': `${REALM}${parameters}` } });
}
