import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  CONTROL_API_PREFIX,
  MEDIA_CREATED_HEADER,
  MEDIA_ID_HEADER,
  PROBLEM_CODE_HEADER,
  UPLOADS_PATH,
} from '@mds/contract';
import type { Express, NextFunction, Request, Response } from 'express';
import { methodNotAllowed } from '../http/methods.ts';
import { noSuchUpload } from '../uploads/upload-problems.ts';
import { uploadMethodOf } from '../uploads/upload-request.ts';
import type { Uploads } from '../uploads/uploads.ts';
import { requireScope, tokenOf } from './authenticate.ts';

const COLLECTION = 'POST, OPTIONS';
const ITEM = 'HEAD, PATCH, DELETE, OPTIONS';

/** Mounts resumable uploads. Their requests have passed the token check. */
export function mountUploads(app: Express, uploads: Pick<Uploads, 'serve'>): void {
  const serve = async (req: Request, res: Response, id: string | null, allow: string) => {
    requireScope(req, 'ingest');
    if (!allow.split(', ').includes(uploadMethodOf(req))) throw methodNotAllowed(req, allow);
    const { projectId, sha256 } = tokenOf(req);
    await uploads.serve(req, res, id, { projectId, tokenSha256: sha256 });
  };
  app.all(UPLOADS_PATH, (req, res) => serve(req, res, null, COLLECTION));
  app.all(`${UPLOADS_PATH}/:id`, (req, res) => serve(req, res, String(req.params['id']), ITEM));
  app.all(`${UPLOADS_PATH}/:id/*splat`, () => {
    throw noSuchUpload();
  });
}

const ALLOWED = [
  'Authorization',
  'Content-Type',
  'Tus-Resumable',
  'Upload-Defer-Length',
  'Upload-Length',
  'Upload-Metadata',
  'Upload-Offset',
  'X-HTTP-Method-Override',
  'X-Request-Id',
  'X-Requested-With',
].join(', ');

const EXPOSED = [
  'Location',
  'Retry-After',
  'Tus-Extension',
  'Tus-Max-Size',
  'Tus-Resumable',
  'Tus-Version',
  'Upload-Defer-Length',
  'Upload-Expires',
  'Upload-Length',
  'Upload-Metadata',
  'Upload-Offset',
  'X-Request-Id',
  MEDIA_ID_HEADER,
  MEDIA_CREATED_HEADER,
  PROBLEM_CODE_HEADER,
].join(', ');

/**
 * Allows pages of the given origins to upload and to read the result. Mounted before the token check, because preflights carry no token.
 * @param origins as browsers send them; if empty, no page of another origin can use the control API
 */
export function mountUploadCors(app: Express, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const trusted = new Set(origins);
  const allow = (methods: string) => (req: IncomingMessage, res: ServerResponse, next: NextFunction) => {
    // Answers differ by origin, including the origins that are refused.
    res.setHeader('Vary', 'Origin');
    const { origin } = req.headers;
    if (origin === undefined || !trusted.has(origin)) {
      next();
      return;
    }
    res.setHeader('Access-Control-Allow-Origin', origin);
    res.setHeader('Access-Control-Expose-Headers', EXPOSED);
    res.setHeader('Cross-Origin-Resource-Policy', 'cross-origin');
    if (req.method !== 'OPTIONS' || req.headers['access-control-request-method'] === undefined) {
      next();
      return;
    }
    res.setHeader('Access-Control-Allow-Methods', methods);
    res.setHeader('Access-Control-Allow-Headers', ALLOWED);
    res.setHeader('Access-Control-Max-Age', '86400');
    res.setHeader('Cache-Control', 'no-store');
    res.statusCode = 204;
    res.end();
  };
  app.use(UPLOADS_PATH, allow('POST, HEAD, PATCH, DELETE, OPTIONS'));
  app.use(`${CONTROL_API_PREFIX}/media/:id`, allow('GET, HEAD'));
}
