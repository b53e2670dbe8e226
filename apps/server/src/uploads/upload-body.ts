import type { IncomingMessage, ServerResponse } from 'node:http';
import { continueBody } from '../http/unread-body.ts';

/** The body of a request that adds to an upload. The bytes that came count, however it ends. */
export interface UploadBody {
  readonly stream: ReadableStream<Uint8Array>;
  /** Ends the stream after the bytes that have come. The rest is not read here. */
  end(): void;
}

/**
 * The body as a stream that never fails. If the sender breaks off, or is silent for `idleMs` while more is wanted, the stream ends after
 * the bytes that came. `100 Continue` is sent when the first byte is wanted.
 */
export function createUploadBody(
  req: IncomingMessage,
  res: ServerResponse,
  { idleMs }: { idleMs: number },
): UploadBody {
  let idle: NodeJS.Timeout | undefined;
  let begun = false;
  let ended = false;
  let controller: ReadableStreamDefaultController<Uint8Array>;

  const wait = () => {
    clearTimeout(idle);
    idle = setTimeout(end, idleMs);
  };
  const onData = (chunk: Buffer) => {
    controller.enqueue(chunk);
    // Read one piece ahead of the consumer.
    if ((controller.desiredSize ?? 0) >= 0) wait();
    else {
      clearTimeout(idle);
      req.pause();
    }
  };
  const end = () => {
    if (ended) return;
    ended = true;
    clearTimeout(idle);
    req.off('data', onData).off('end', end).off('close', end);
    req.pause();
    controller.close();
  };
  // A connection may break while nobody reads from it. An error event without a listener would end the process.
  req.on('error', end);

  const source = {
    start(its: ReadableStreamDefaultController<Uint8Array>) {
      controller = its;
    },
    pull() {
      if (ended) return;
      if (!begun) {
        begun = true;
        if (req.readableEnded || (req.destroyed && !req.complete)) {
          end();
          return;
        }
        continueBody(req, res);
        req.on('data', onData).on('end', end).on('close', end);
      }
      wait();
      req.resume();
    },
    cancel() {
      ended = true;
      clearTimeout(idle);
      req.off('data', onData).off('end', end).off('close', end);
    },
  };
  // A high-water mark of 0: nothing is asked of the sender before the first read.
  return { stream: new ReadableStream(source, { highWaterMark: 0 }), end };
}
