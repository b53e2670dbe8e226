import {
  type IncomingMessage,
  type ServerResponse,
  STATUS_CODES,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http';

/** Names and values in turn, as `writeHead` takes them. */
export type Fields = readonly string[];

/** Fields that many answers have in common, with their text on the wire, so that it is written once. */
export interface PreparedFields {
  readonly list: Fields;
  /** A line each, with its end. */
  readonly text: string;
}

/** Where an answer goes that is there at once and whole: a connection, or node's own response. */
export interface AnswerSink {
  /**
   * Sends a whole answer. The fields say how long the body is; what is about the connection, and Date, is added to them.
   * @param also fields of this answer alone, of which is known that they may stand in a header
   * @param body in parts; none: 304, or the answer to HEAD
   */
  send(status: number, fields: PreparedFields, also: Fields, body: readonly Buffer[]): void;
  /** Bytes of it that the system has not taken yet. */
  readonly unsentBytes: number;
  /** Calls when the system has taken all of it, or the reader is gone. */
  onceTaken(callback: () => void): void;
  /** Gives the connection up if its reader takes nothing for so long. */
  giveUpAfter(ms: number): void;
}

/**
 * {@link PreparedFields} of a list; their text is made when it is first asked for.
 */
export function prepareFields(list: Fields): PreparedFields {
  let text: string | undefined;
  return {
    list,
    get text() {
      text ??= fieldLines(list);
      return text;
    },
  };
}

/** Fields as they are written: a line each. @throws TypeError for what may not stand in a header (RFC 9110, 5.5), as `writeHead` does */
function fieldLines(list: Fields): string {
  const parts: string[] = [];
  for (let at = 0; at + 1 < list.length; at += 2) {
    const name = list[at] ?? '';
    const value = list[at + 1] ?? '';
    validateHeaderName(name);
    validateHeaderValue(name, value);
    parts.push(name, ': ', value, '\r\n');
  }
  // In one piece: of a string that was put together by adding to it, the parts would be collected anew for every answer.
  return parts.join('');
}

const statusLines = new Map<number, string>();

/** The first line of an answer, with its end. */
export function statusLine(status: number): string {
  let line = statusLines.get(status);
  if (line === undefined) {
    line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`;
    statusLines.set(status, line);
  }
  return line;
}

/** {@link AnswerSink} over node's own response. */
export function sinkOf(response: ServerResponse): AnswerSink {
  return {
    send(status, fields, also, body) {
      // `writeHead` copies what it is given.
      response.writeHead(status, also.length === 0 ? (fields.list as string[]) : [...fields.list, ...also]);
      for (let at = 0; at + 1 < body.length; at += 1) response.write(body[at]);
      response.end(body.at(-1));
    },
    get unsentBytes() {
      return response.writableLength;
    },
    onceTaken(callback) {
      if (response.closed) callback();
      else response.once('close', callback);
    },
    giveUpAfter: (ms) => void response.setTimeout(ms, () => response.destroy()),
  };
}

/** What an answer out of memory is decided by; requests of node:http have it, too. */
export interface HotRequest extends Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'httpVersion'> {
  socket: { remoteAddress?: string | undefined };
}
