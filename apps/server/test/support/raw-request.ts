import { connect } from 'node:net';

/** Sends bytes as they are and reads until the other side closes: what no HTTP client would let through. */
export function rawRequest(port: number, bytes: string | Buffer, timeoutMs = 5_000): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.setEncoding('latin1');
    socket.setTimeout(timeoutMs, () => {
      socket.destroy();
      reject(new Error(`No end of the answer within ${timeoutMs} ms; so far: ${text}`));
    });
    socket.on('data', (chunk: string) => {
      text += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(text));
  });
}

/** Head and body of a raw answer; of several, the last. */
export function parseRaw(text: string): { status: number; headers: Record<string, string>; body: string } {
  const start = text.lastIndexOf('HTTP/1.1 ');
  const [head = '', body = ''] = text.slice(start).split('\r\n\r\n', 2);
  const [line = '', ...fields] = head.split('\r\n');
  const headers = Object.fromEntries(
    fields.map((field) => [
      field.slice(0, field.indexOf(':')).toLowerCase(),
      field.slice(field.indexOf(':') + 1).trim(),
    ]),
  );
  return { status: Number(line.split(' ')[1]), headers, body };
}
