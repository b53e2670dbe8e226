import type { IncomingMessage, ServerResponse } from 'node:http';

/** How much of a refused body is still read, and for how long, so that its sender receives the answer. */
const LINGER_BYTES = 64 * 1024 * 1024;
const LINGER_MS = 5_000;

const awaitingContinue = new WeakSet<IncomingMessage>();
/** Answers that were sent completely while the connection stays open for the rest of a body. */
const answeredEarly = new WeakSet<ServerResponse>();

/** Marks a request whose sender waits for `100 Continue` before it sends the body (RFC 9110, 10.1.1). */
export function markAwaitingContinue(req: IncomingMessage): void {
  awaitingContinue.add(req);
}

/** Sends `100 Continue` if the sender waits for it. */
export function continueBody(req: IncomingMessage, res: ServerResponse): void {
  if (awaitingContinue.delete(req) && !res.headersSent) res.writeContinue();
}

function bodyIsComing(req: IncomingMessage): boolean {
  if (req.complete || req.destroyed || awaitingContinue.has(req)) return false;
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;
}

/** Whether an answer was sent completely, even if its connection stayed open for the body and the sender has closed it since. */
export function wentOutWhole(res: ServerResponse): boolean {
  return res.writableFinished || answeredEarly.has(res);
}

/**
 * Ends an answer. If the request's body is still arriving, the answer is sent at once and the connection stays readable for a while.
 * Closing it under a client that is still sending would reset it, and the client would report a broken pipe instead of our answer
 * (RFC 9112, 9.6).
 */
export function endAnswer(req: IncomingMessage, res: ServerResponse, body: string | Buffer): void {
  if (!bodyIsComing(req)) {
    res.end(body);
    return;
  }
  res.setHeader('Connection', 'close');
  if (req.method === 'HEAD' || body.length === 0) res.flushHeaders();
  else res.write(body);
  answeredEarly.add(res);
  let left = LINGER_BYTES;
  const finish = () => {
    clearTimeout(timer);
    req.off('data', count).off('end', finish).off('close', finish);
    if (!res.writableEnded) res.end();
  };
  const count = (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) finish();
  };
  const timer = setTimeout(finish, LINGER_MS);
  timer.unref();
  req.on('data', count).on('end', finish).on('close', finish);
  req.resume();
}
