import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { AppError } from '../base/app-error.ts';
import { continueBody } from '../http/unread-body.ts';
import { announcedDigests } from './body-digest.ts';

/** A sender that is silent for this long is considered gone. */
const IDLE_MS = 60_000;
/** Read-ahead of each body for a slow disk: four reads of a socket. The bodies that admission lets in use half a gigabyte in total. */
const BUFFERED_BYTES = 256 * 1024;

/**
 * The body of an upload as a separate stream. Destroying it leaves the connection open for an answer. `100 Continue` is sent when the first
 * byte is needed. A silent sender is given up. Announced digests are checked before the stream ends. Fails with an AppError:
 * `incomplete_body` or `content_digest_mismatch`.
 * @throws AppError `invalid_request` at once for a malformed digest
 */
export function uploadBody(req: IncomingMessage, res: ServerResponse, idleMs = IDLE_MS): Readable {
  const digests = announcedDigests(req.headers);
  let idle: NodeJS.Timeout | undefined;
  let begun = false;

  const failIncomplete = (cause?: unknown) =>
    body.destroy(
      new AppError('incomplete_body', 'The body ended before it was complete, and nothing was stored. Send it again.', {
        cause,
      }),
    );
  const giveUp = () =>
    body.destroy(
      new AppError(
        'incomplete_body',
        `No byte arrived for ${idleMs / 1000} seconds, so the upload was given up and nothing was stored. Send it again.`,
      ),
    );
  const onData = (chunk: Buffer) => {
    clearTimeout(idle);
    digests?.update(chunk);
    if (body.push(chunk)) wait();
    else req.pause();
  };
  const onEnd = () => {
    clearTimeout(idle);
    try {
      digests?.check();
      body.push(null);
    } catch (error) {
      body.destroy(error as AppError);
    }
  };
  const onClose = () => {
    if (!req.complete) failIncomplete();
  };
  const wait = () => {
    clearTimeout(idle);
    idle = setTimeout(giveUp, idleMs);
  };

  const body = new Readable({
    highWaterMark: BUFFERED_BYTES,
    read() {
      if (!begun) {
        begun = true;
        continueBody(req, res);
        req.on('data', onData).on('end', onEnd).on('error', failIncomplete).on('close', onClose);
        if (req.destroyed && !req.complete) failIncomplete();
      }
      wait();
      req.resume();
    },
    destroy(error, callback) {
      clearTimeout(idle);
      req.off('data', onData).off('end', onEnd).off('close', onClose);
      // The error listener stays: without it, a connection that breaks later would crash the process.
      callback(error);
    },
  });
  return body;
}
