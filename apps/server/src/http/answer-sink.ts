import {
  type IncomingMessage,
  type ServerResponse,
  STATUS_CODES,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http';

/** Names and values in turn, as `writeHead` takes them. */
export type Fields = readonly string[];

/** Fields shared by many answers, with their text on the wire, which is made once. */
export interface PreparedFields {
  readonly list: Fields;
  /** One line for each field, with its line break. */
  readonly text: string;
}

/** The destination of an answer that is complete in memory: a connection, or Node's response. */
export interface AnswerSink {
  /**
   * Sends a complete answer. The fields must include the length of the body; Date and the fields of the connection are added.
   * @param also fields of this answer alone, already known to be valid
   * @param body in parts; empty for 304 and for HEAD
   */
  send(status: number, fields: PreparedFields, also: Fields, body: readonly Buffer[]): void;
  /** Bytes of the answer that the system has not accepted yet. */
  readonly unsentBytes: number;
  /** Calls back when the system has accepted the whole answer, or the reader is gone. */
  onceTaken(callback: () => void): void;
  /** Closes the connection if its reader takes nothing for this long. */
  giveUpAfter(ms: number): void;
}

/** {@link PreparedFields} of a list; their text is made on first use. */
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

/** One line for each field. @throws TypeError for an invalid name or value (RFC 9110, 5.5), as `writeHead` does */
function fieldLines(list: Fields): string {
  const parts: string[] = [];
  for (let at = 0; at + 1 < list.length; at += 2) {
    const name = list[at] ?? '';
    const value = list[at + 1] ?? '';
    validateHeaderName(name);
    validateHeaderValue(name, value);
    parts.push(name, ': ', value, '\r\n');
  }
  // `join` makes a flat string. A concatenated one would be flattened again for every answer.
  return parts.join('');
}

const statusLines = new Map<number, string>();

/** The first line of an answer, with its line break. */
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
      // `writeHead` copies the list.
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

/** The parts of a request that select an answer from memory; requests of node:http have them too. */
export interface RequestHead extends Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'httpVersion'> {
  socket: { remoteAddress?: string | undefined };
}
