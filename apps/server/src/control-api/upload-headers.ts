import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '../base/app-error.ts';

/**
 * Checks the headers of a request whose body must be a plain file. The format of the file is detected later from its bytes.
 * @returns the announced size in bytes, or null if none is announced
 * @throws AppError `unsupported_content_type` if the file is encoded or wrapped, or if the body is no file
 */
export function requireFileBody(req: IncomingMessage): number | null {
  const type = mediaTypeOf(req.headers['content-type']);
  if (type === 'multipart/form-data') {
    throw refused(
      'content-type',
      'Forms are not supported here: the body must be the file itself. With curl: --data-binary @FILE, or -X POST -T FILE, instead of -F.',
    );
  }
  // `application/json` is handled by the route that fetches from a URL.
  if (type.endsWith('+json')) {
    throw refused(
      'content-type',
      'JSON is no media object: the body must be the file itself, with curl: --data-binary @FILE. To have a URL fetched, send {"source_url": "https://…"} with Content-Type: application/json.',
    );
  }
  const encoding = String(req.headers['content-encoding'] ?? 'identity').trim();
  if (encoding.toLowerCase() !== 'identity') {
    throw refused(
      'content-encoding',
      'Encoded bodies are not supported here. Send the file as it is, without Content-Encoding.',
    );
  }
  const length = req.headers['content-length'];
  if (length !== undefined) return Number(length);
  // RFC 9112, 6.3: neither length nor transfer coding means that there is no body.
  return req.headers['transfer-encoding'] === undefined ? 0 : null;
}

/** The media type without parameters, in lower case; `image/svg+xml` and the like do not end in `+json`. */
export function mediaTypeOf(field: string | undefined): string {
  return (field ?? '').split(';', 1).join().trim().toLowerCase();
}

/** A signal that aborts when the client disconnects before the answer. */
export function abortWhenGone(res: ServerResponse): AbortSignal {
  const controller = new AbortController();
  res.once('close', () => {
    if (!res.writableFinished) controller.abort(new Error('the client disconnected'));
  });
  return controller.signal;
}

function refused(header: string, detail: string): AppError {
  return new AppError('unsupported_content_type', detail, {
    issues: [{ in: 'header', path: header, message: 'is not accepted here' }],
  });
}
