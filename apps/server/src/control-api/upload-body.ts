import { createHash, type Hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { AppError } from '../http/app-error.ts';
import { continueBody } from '../http/unread-body.ts';

/** A sender that says nothing for this long is gone. */
const IDLE_MS = 60_000;

/**
 * The body of an upload as a stream of its own: destroying it leaves the connection open for an answer, a sender that
 * waits for `100 Continue` hears it when the first byte is wanted, a silent one is given up, and a digest that the sender
 * gave is checked before the end is told. Ends with an AppError: `incomplete_body`, `content_digest_mismatch`.
 * @throws AppError `invalid_request` at once for a digest that cannot be checked
 */
export function uploadBody(req: IncomingMessage, res: ServerResponse, idleMs = IDLE_MS): Readable {
  const digest = expectedDigest(req);
  let idle: NodeJS.Timeout | undefined;
  let begun = false;

  const brokenOff = (cause?: unknown) =>
    body.destroy(
      new AppError('incomplete_body', 'The body ended before it was complete, and nothing was kept. Send it again.', {
        cause,
      }),
    );
  const gaveUp = () =>
    body.destroy(
      new AppError(
        'incomplete_body',
        `No byte arrived for ${idleMs / 1000} seconds, so the upload was given up and nothing was kept. Send it again.`,
      ),
    );
  const onData = (chunk: Buffer) => {
    clearTimeout(idle);
    digest?.hash.update(chunk);
    if (body.push(chunk)) wait();
    else req.pause();
  };
  const onEnd = () => {
    clearTimeout(idle);
    if (digest && !digest.hash.digest().equals(digest.expected)) {
      body.destroy(
        new AppError(
          'content_digest_mismatch',
          'The body that arrived does not have the digest that its header announces. Nothing was kept; send it again.',
        ),
      );
    } else body.push(null);
  };
  const onClose = () => {
    if (!req.complete) brokenOff();
  };
  const wait = () => {
    clearTimeout(idle);
    idle = setTimeout(gaveUp, idleMs);
  };

  const body = new Readable({
    highWaterMark: 1024 * 1024,
    read() {
      if (!begun) {
        begun = true;
        continueBody(req, res);
        req.on('data', onData).on('end', onEnd).on('error', brokenOff).on('close', onClose);
        if (req.destroyed && !req.complete) brokenOff();
      }
      wait();
      req.resume();
    },
    destroy(error, callback) {
      clearTimeout(idle);
      req.off('data', onData).off('end', onEnd).off('close', onClose);
      // The listener for errors stays: without one, a connection that breaks later would end the process.
      callback(error);
    },
  });
  return body;
}

/** The digest that a sender announces (RFC 9530); of several, the strongest that is known here. */
function expectedDigest(req: IncomingMessage): { hash: Hash; expected: Buffer } | null {
  for (const name of ['content-digest', 'repr-digest']) {
    const field = req.headers[name];
    if (typeof field !== 'string') continue;
    for (const [algorithm, key, bytes] of [
      ['sha512', 'sha-512', 64],
      ['sha256', 'sha-256', 32],
    ] as const) {
      const value = new RegExp(`(?:^|[,\\s])${key}=:([A-Za-z0-9+/=]*):`).exec(field)?.[1];
      if (value === undefined) continue;
      const expected = Buffer.from(value, 'base64');
      if (expected.length === bytes) return { hash: createHash(algorithm), expected };
      const message = `must be ${key}=:<base64 of the ${bytes} bytes>:`;
      throw new AppError('invalid_request', `The header ${name} ${message}.`, {
        issues: [{ in: 'header', path: name, message }],
      });
    }
  }
  return null;
}
