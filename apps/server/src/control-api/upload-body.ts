import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { AppError } from '../base/app-error.ts';
import { continueBody } from '../http/unread-body.ts';
import { announcedDigests } from './body-digest.ts';

/** A sender that says nothing for this long is gone. */
const IDLE_MS = 60_000;
/** Read ahead of a slow disk, of each body: four reads of a socket. As many bodies as admission lets in hold half a gigabyte by it. */
const BUFFERED_BYTES = 256 * 1024;

/**
 * The body of an upload as a stream of its own: destroying it leaves the connection open for an answer, a sender that
 * waits for `100 Continue` hears it when the first byte is wanted, a silent one is given up, and digests that the sender
 * gave are checked before the end is told. Ends with an AppError: `incomplete_body`, `content_digest_mismatch`.
 * @throws AppError `invalid_request` at once for a digest that cannot be checked
 */
export function uploadBody(req: IncomingMessage, res: ServerResponse, idleMs = IDLE_MS): Readable {
  const digests = announcedDigests(req.headers);
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
    if (!req.complete) brokenOff();
  };
  const wait = () => {
    clearTimeout(idle);
    idle = setTimeout(gaveUp, idleMs);
  };

  const body = new Readable({
    highWaterMark: BUFFERED_BYTES,
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
