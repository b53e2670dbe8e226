import type { IncomingMessage, ServerResponse } from 'node:http';

/** How much of a refused body is still read, and for how long, so that its sender gets to see the answer. */
const LINGER_BYTES = 64 * 1024 * 1024;
const LINGER_MS = 5_000;

const awaitingContinue = new WeakSet<IncomingMessage>();
/** Answers that went out whole while their connection stays open for the rest of a body. */
const answeredEarly = new WeakSet<ServerResponse>();

/** Marks a request whose sender waits for `100 Continue` before it sends the body (RFC 9110, 10.1.1). */
export function markAwaitingContinue(req: IncomingMessage): void {
  awaitingContinue.add(req);
}

/** Tells a sender that waits for it to send the body; nothing where none waits. */
export function continueBody(req: IncomingMessage, res: ServerResponse): void {
  if (awaitingContinue.delete(req) && !res.headersSent) res.writeContinue();
}

function bodyIsComing(req: IncomingMessage): boolean {
  if (req.complete || req.destroyed || awaitingContinue.has(req)) return false;
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;
}

/** Whether an answer went out whole, also where its connection was left open for the body and its sender has closed it since. */
export function wentOutWhole(res: ServerResponse): boolean {
  return res.writableFinished || answeredEarly.has(res);
}

/**
 * Ends an answer. Where the request's body is still on its way, the answer goes out whole at once, and the connection
 * stays readable for a while: closing it under a client that is still sending would reset it, and the client would
 * report a broken pipe instead of our answer (RFC 9112, 9.6).
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
